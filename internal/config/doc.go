// Package config turns a configuration file and the flags of a command line into
// one [Config], or into the list of everything that is wrong with them.
//
// It is pure: bytes and values in, a Config and [Problem]s out. It opens no file
// and looks at no environment but those that it is handed ([Input]).
//
// # Layers
//
// A value comes from the first of these that sets it: a flag, a variable of the
// environment, the file, the default. [Settings] is the one table of keys, flags,
// defaults and explanations; the command line registers its flags from it, and a
// setting's variable is made from its key. [ServerKeys] is the table of what may be
// said about one server, and [SharedKeys], a part of both, of what may be said about
// all servers and about one: the more specific counts. A new key is a new row there
// and a field in Config, [Server], [Policy] or [Limits].
//
// Each value keeps the place that set it: [Config.Effective] lists both, and [Show]
// writes them as a file.
//
// # Secrets
//
// A text may name a secret, as ${env:NAME} or ${file:PATH}. What it stands for is filled
// in when the text is read, and the value is marked: it is shown as [Masked], and what
// is wrong with it is told without it.
//
// Numbers and durations have bounds, and some must not exceed others. A default
// gives way to the bound above it; what somebody has set does not, and is reported.
//
// # Files
//
// A file is YAML or JSON. It is read into a tree that keeps line numbers, and the
// tree is checked against the tables before anything is decoded, so that every
// problem is found in one pass and named with its line.
//
// Servers are listed under `servers`, and under `mcpServers` in the form in which
// the configuration files of MCP clients have it. Such a file can be used as it
// stands: what only concerns the client is passed over, and [Notes] says so.
package config
