//go:build race

package cmd_test

// detector is how much more memory a program needs under the race detector.
const detector = 8
