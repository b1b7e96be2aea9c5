// Package docs holds the tests of what is in docs and in the README: the parts
// that are made from code, the code in them, and their links. It has no code of
// its own.
package docs
