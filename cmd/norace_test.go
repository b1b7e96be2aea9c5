//go:build !race

package cmd_test

const detector = 1
