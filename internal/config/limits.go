package config

import "time"

// Limits are how much the sessions of a server may take of the machine. A file sets
// them for all servers, and for one. 0 is no bound where the key allows it.
type Limits struct {
	MaxSessions          int           `koanf:"max_sessions"`
	MaxSessionsPerCaller int           `koanf:"max_sessions_per_caller"`
	MaxRequests          int           `koanf:"max_requests"`
	MaxStreams           int           `koanf:"max_streams"`
	MaxMessage           int64         `koanf:"max_message"` // bytes
	MaxMemory            int64         `koanf:"max_memory"`  // bytes
	MaxCPU               time.Duration `koanf:"max_cpu"`     // or Never
	MaxProcesses         int           `koanf:"max_processes"`
	MaxFiles             int           `koanf:"max_files"`
	CrashLimit           int           `koanf:"crash_limit"`
	Response             string        `koanf:"response"`
}

// LimitKeys is every key of Limits.
var LimitKeys = []Setting{
	{"max_sessions", "max-sessions", CountOrNone, 100_000, "N", "sessions of one server, at rest or not; further ones are refused; 0: any", nil},
	{"max_sessions_per_caller", "max-sessions-per-caller", CountOrNone, 1000, "N", "those of one caller that has a name; 0: any", nil},
	{"max_requests", "max-requests", CountOrNone, 10_000, "N", "requests of one server that wait for an answer, of all its sessions, whether their clients listen or not; further ones are refused; 0: any", nil},
	{"max_streams", "max-streams", Count, 10_000, "N", "streams of one server that clients have open, for answers or to listen; further ones are refused", nil},
	{"max_message", "max-message", Size, int64(16 << 20), "SIZE", "one message: a body that a client sends, a line that a server writes", nil},
	{"max_memory", "max-memory", SizeOrNone, int64(2 << 30), "SIZE", "memory of one session's server, with all that it has started; beyond it the server is ended; 0: any", nil},
	{"max_cpu", "max-cpu", DurationOrNever, Never, "DURATION", "processor time of the same, in all; beyond it the server is ended; 0: any", nil},
	{"max_processes", "max-processes", CountOrNone, 256, "N", "processes of the same; beyond it the server is ended; 0: any", nil},
	{"max_files", "max-files", CountOrNone, 4096, "N", "files that each of its processes may have open; 0: as many as the system grants", nil},
	{"crash_limit", "crash-limit", CountOrNone, 5, "N", "servers that end one after the other before they have said anything; then the next starts wait, up to a minute; 0: none ever waits", nil},
	{"response", "response", Text, "stream", "stream|json", "how a request is answered: by a stream of events, or by one JSON document where its answer is the first that is said", oneOf("stream", "json")},
}
