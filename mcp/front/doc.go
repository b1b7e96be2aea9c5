// Package front is the HTTP side of hosted MCP sessions: the Streamable HTTP
// transport, in the revisions 2024-11-05 to 2025-11-25.
//
// A [Front] serves one server's endpoint. It judges requests, keeps the limits,
// and writes streams; what a session is and what it answers is decided behind
// [session.Sessions]. A front holds nothing durable: any front can serve any
// session, and a client that was cut off resumes at whichever it reaches.
//
// # Requests
//
// POST brings messages. One with requests in it is answered by a stream of
// events that lasts until each is answered; one without, by 202. GET opens the
// stream on which a session writes of its own accord, or with Last-Event-ID the
// rest of an earlier stream. DELETE ends the session. A POST of initialize
// without a session id makes a session, under an id that the front mints.
//
// What is refused is refused with a status and a JSON-RPC error that names what
// is wrong and what to do, in this order: host and origin (403), shutdown (503),
// method (405), credentials (see Options.Principal), content type (415), accepted
// types (406), size (413), JSON (400), version and era (400), batch (400), session
// id (400, 404), streams at the limit (503). What the session refuses is passed on
// as it is.
//
// Requests of the modern era, which has no sessions, are answered with that era's
// own error for a version which is not served, and the list of those that are:
// clients of both eras then know to fall back.
//
// # Exchanges
//
// The exchange between a request and its session is run by the handler's own
// goroutine, which waits on the session's socket, on one timer, on the client's
// leaving and on shutdown. No goroutine stands behind a stream.
//
// Nothing is sent before the session has confirmed that it has the request in
// storage. Events are written as they come, flushed once for all that came
// together, and each flush is confirmed to the session, which only then may
// forget them. The head of a POST's stream waits up to Hold for what the session says
// first: so a quick answer to a client of a revision without resumption from the
// beginning is one write, of known length. An event id is never held: the client that
// has it can come back. A stream on which nothing was written for KeepAlive carries a
// comment.
//
// With Options.JSON a request whose answer is the first that is said about it is
// answered by one JSON document instead; the ids that lead a client back are held until
// something else is said, or KeepAlive has passed, and then it is a stream as any other.
//
// # How a stream ends
//
// Final: it owes nothing. Parked: the client holds the id of an event and resumes
// the stream with GET; so end streams whose client reads too slowly (Pending),
// GETs that are old (StreamAge), and all at [Front.Shutdown]. Never otherwise,
// while the client is there.
//
// When the session is reset in the middle, its socket ends broken and the front
// passes the exchange on to the session's next incarnation: the request as it
// was, and the last event that was written. The next incarnation sends what is
// missing and answers what was lost. Exchanges take turns at this (MaxAttaching);
// each waits for its turn up to AttachWait and then tries for AttachLimit.
//
// When answers are owed for DeadlineMargin longer than the session lets requests
// run, when the session does not say in OpeningLimit what becomes of a request, or
// when the front shuts down and the client has no event id to come back with, the
// front asks the session to answer what is owed as lost (session.Expire). The session
// alone knows whether a result came first, and whichever it stores first counts.
//
// Last resort: when no incarnation takes the exchange over, or one that was asked does
// not answer in AttachLimit, the front answers each request that is still owed with
// the error that its execution was lost. Where nothing has been sent yet, that is a
// JSON body with 500. This is the only way in which a client can be told
// twice, once by the front and once, when it comes back or on a GET, by the session; the id
// of the last such event says that the client knows, see [session.EventID.Told].
// Stats counts them, and so does the metric kalpa.mcp.front.last_resorts.
//
// A client that leaves does not cancel anything: in these revisions it may come
// back for the answers.
//
// # Limits
//
// Everything that grows has a bound, and each bound is a field of [Options] with
// its default: bodies (MaxBody, MaxBodies, MaxBatch, BodyLimit), streams
// (MaxStreams), what waits for a slow reader (Pending, WriteLimit). The size of
// the headers and the time they take are the http.Server's to bound; it must not
// set WriteTimeout or ReadTimeout, which would end streams.
//
// Bodies larger than 64 KiB are read at a pace, all of a process together, and into
// memory that is used again: who sends what is refused in the end slows down others who
// do, and not those whose messages are small.
package front
