// Package admin is the API of a running host for those who run it: JSON over HTTP
// on the admin listener, and the client that kalpa's own commands use.
//
// # Requests
//
//	GET    /v1/overview                 figures: Overview
//	GET    /v1/events                   what happens, as server-sent events: Event
//	GET    /v1/sessions                 Sessions, by pages; see its parameters
//	GET    /v1/sessions/{id}            SessionDetail
//	DELETE /v1/sessions/{id}            ends one for good: Ended
//	POST   /v1/sessions/{id}/dispose    closes its runtime: Disposed
//	GET    /v1/classes                  Classes
//	GET    /v1/objects                  Objects, by pages
//	GET    /v1/object                   ObjectDetail, with a page of its rows
//	DELETE /v1/object                   deletes all that is stored of it: Removed
//	GET    /v1/object/export            lines of JSON: see storage.Export
//	POST   /v1/object/import            the inverse: Imported
//	GET    /v1/alarms                   Alarms, by pages
//	GET    /v1/isolates                 Isolates
//	GET    /v1/servers                  Servers: how they fare, crash loops included
//	GET    /v1/activity                 Activities: what sessions have done lately
//	GET    /v1/backup                   a tar archive: see pebble.Store.Backup
//	POST   /v1/reset                    breaks a session, an object or an isolate: Reset, WasReset
//	POST   /v1/chaos                    arms a reset at a point of an execution: Strike, Armed
//	GET    /v1/chaos                    those that wait: Strikes
//	DELETE /v1/chaos                    takes all of them back: Disarmed
//	DELETE /v1/chaos/{number}           takes one back: Disarmed
//	GET    /healthz, /readyz, /metrics  what Options says; the first two before all else, see Early
//	GET    /debug/pprof/                Go's profiles
//	GET    /, /console/                 the console, for browsers
//
// A reset has happened when its answer comes. The types in this package are the
// shapes; fields may be added to answers, and a field that is not known is an error
// in a request: a mistyped filter must not make a strike hit everybody.
//
// # Errors
//
// An answer other than 200 is an [Error]: {"error": ..., "hint": ...}. 400: the
// request makes no sense, and names the field and what it may be. 401 and 403: see
// Security. 404: what it is about is not there, or is at rest. 405, 413, 415: as in
// HTTP.
//
// # Security
//
// Whoever reaches this listener can end what others are doing, and may end the
// process. So it is served on a unix socket that its owner alone can open, on a
// loopback address, or elsewhere with a token.
//
//   - Other machines, other users of a network: a token ([Options].Token), compared
//     in constant time. Only GET /healthz, /readyz and the console's files do without it. A listener without one
//     that is found to be reachable from elsewhere refuses everything.
//   - A web page in a browser on this machine that posts to the loopback address
//     (cross-site request forgery): an Origin that is not the listener's own is
//     refused, and so is what a browser marks as coming from another site; bodies
//     must be of type application/json, which no form can send.
//   - A web page whose name was made to lead to the loopback address (DNS
//     rebinding): without a token the Host must be a loopback address or localhost.
//   - Other users of this machine can reach a loopback address, and so could end
//     executions: give it a token there as well, or use a unix socket.
package admin
