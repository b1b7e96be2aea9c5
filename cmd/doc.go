// Package cmd is kalpa's command line, as a package, so that a program with
// plugins of its own has all of it: see the root package, whose Main is the way
// in.
//
// # Files
//
// One file for each command, named for it. What a command line or a configuration
// file may say is in internal/config, which is pure; here it is put to use.
//
// # Output
//
// What a person or a script asked for goes to stdout; logs and errors go to
// stderr. Errors come one a line, in full, with a hint where there is one.
//
// # Exit codes
//
// See [ExitOK] and those below it.
package cmd
