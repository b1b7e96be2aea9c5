// Package conn makes a connection cheaper for an [net/http.Server] whose requests are
// short. For each request that server sets a deadline eight times, and reads ahead, on a
// goroutine of its own, so as to see a client leave. Both are right, and seldom come to
// anything: here a deadline is told to the system only where it would be reached, and
// what is read ahead only once a request has taken a while.
//
//	server.Serve(conn.NewListener(inner))
//
// What a connection does is as it was, save that a client that leaves is noticed up to
// twice [Ahead] later, and that a single byte is read as late by whoever has no deadline for it.
// Behind TLS what is read ahead is a record, and is not held back.
package conn
