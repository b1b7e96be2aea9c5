// Package arch holds the test that keeps the packages of this module apart: which
// may import which, each rule with its reason. It has no code of its own.
package arch
