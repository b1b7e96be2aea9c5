// Package console is a page for browsers, on the admin listener: what a host does now,
// what it has just done, and buttons for what its operator may do to sessions.
//
// # Parts
//
// Static files, embedded, in page: one document, one style sheet, and ES modules that a
// browser runs as they are. There is no build step, no framework, and nothing is
// fetched from anywhere else. All data come from the admin API (package
// internal/admin), asked by the page as by any other client; so the page can do no
// more than whoever opens it, and this package knows nothing of the host.
//
// # Security
//
// The files are served to whoever may connect, also without a token: they are the same
// on every host. The API asks for the token; the page asks the person for it, keeps it
// for as long as the tab is open (sessionStorage), and sends it as a header, so that no
// other page can make a browser send it. A strict Content-Security-Policy lets no
// script run but those files, and nothing becomes markup: the modules build elements and
// set texts.
//
// # Bounds
//
// Sessions are shown by pages of the API, and one page is in memory. The feed keeps 200
// rows. Nothing is polled while the tab is hidden.
package console
