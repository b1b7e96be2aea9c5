// Package guarantees is what a client sees when its session is reset in the middle
// of a request. It is data: docs/guarantees.md shows it, and the end-to-end tests
// are generated from it, so that neither can say what the other does not.
//
// [Cells] is the table of what becomes of one request, [Causes] and [Reasons] say
// what the error for a lost one carries, and [Guards] names the test that shows each
// guarantee with the line that the test guards.
package guarantees
