// Package e2e tests kalpa as it is shipped: the real program, started on a free
// port and a folder of its own, driven over real sockets by real clients, and
// killed.
//
// # Clients
//
// client is a raw client in Go that sees bytes and events. tsClient drives the
// official TypeScript client, one process for each client object, so that it goes
// on as the same object however often the host is killed (js/client.mjs). The
// official conformance suite is run by TestConformance.
//
// # Servers
//
// The official server-everything as a child process; the demo that kalpa has built
// in; the Go plugin of examples/everything; and a fake server, which is the test
// binary itself (fakeserver_test.go) and misbehaves on request.
//
// # The newcomer's path
//
// testdata/newcomer.txtar is what somebody types who is new to kalpa, from a clone to a
// restored backup, with the MCP inspector and the TypeScript client. It is read as a page
// of documentation, and run by testscript (newcomer_test.go).
//
// # Parts taken out
//
// Some tests build a second kalpa, with the tag seams, take a part out of it with
// KALPA_SEAMS, and see the story fail that the part is for (idle_test.go).
//
// # Browser
//
// browser drives Chromium (js/browser.mjs, with playwright-core) for the tests of the
// console. Without one they are skipped, and say so; with KALPA_E2E_REQUIRE=1 they fail.
//
// # Node
//
// Tests with TypeScript in them need Node 20 or newer and npm; package-lock.json
// pins what they use, and what is missing is installed by `npm ci` once. Without
// Node, or without a network to install from, those tests are skipped and say why;
// with KALPA_E2E_REQUIRE=1 they fail instead.
package e2e
