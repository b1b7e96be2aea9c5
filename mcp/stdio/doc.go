// Package stdio is the runtime plugin for MCP servers that are programs: each
// session that needs a runtime gets a child process of its own, which talks
// newline-delimited JSON-RPC over its stdin and stdout.
//
//	mcp.Register("files", stdio.New(stdio.Config{
//		Command: "npx",
//		Args:    []string{"-y", "@modelcontextprotocol/server-filesystem", "/srv"},
//		RunDir:  filepath.Join(dataDir, "run"),
//	}))
//
// # The life of a server
//
// Build starts the program and returns at once: the session sends initialize
// through Deliver like any other request, and a program that needs a while to
// read it is simply slow. A program that can't be started is an error of Build's,
// which names the command, the PATH that was searched, and what to do.
//
// Close ends it as MCP has it: stdin is closed; after Config.CloseGrace its
// process group gets SIGTERM; after Config.TermGrace everything that it started
// gets SIGKILL. A context that ends brings SIGKILL forward. Close returns when all
// of that is gone. Whatever the program still wrote is read and thrown away.
//
// A program that ends by itself is reported by one call of Session.Exited, with an
// [ExitError]: its exit status or signal, and the end of its stderr. All that it
// had written to stdout before has been passed on by then, and all that it had
// started is gone. A program that closes its stdout or its stdin and stays is of
// no more use: it is given half a second, killed, and reported with that reason.
//
// # Messages
//
// A line on stdout is a message (or a batch of them, as one revision of MCP has
// it). A line that is no message, such as a banner, is logged and skipped, and so
// is one longer than Config.MaxLine, of which never more than that is kept.
// Messages that come before initialize is answered are passed on: real servers
// send some. Session.Send blocks when the session takes no more, and then the
// pipe fills and the program blocks. stderr is logged line by line, up to a rate.
//
// Deliver blocks while the program does not read. If its context ends in the
// middle of a line, what is out of the line is made invalid, so that the program
// sees a line that it can't read and never a message that is not one.
//
// # What a server inherits
//
// No open files but stdin, stdout and stderr; no terminal, for it has a session
// of its own; the working folder Config.Dir; and a small environment: the
// variables of [Inherited], those that Config.Inherit names, and Config.Env. (The
// supervisor has none of the host's either, where a server could look.) It
// runs as the host's user with the host's rights: to confine it further, make
// the command a program that does (bwrap, a container's client).
//
// # What a server may take
//
// [Config].Limits bound the memory, the processor time and the processes of a server
// with all that it has started, on Linux. They are looked at about once a second, in
// /proc: memory is what is in physical memory, with pages that processes share counted
// for each. What is found is charged to the isolate's heap; what is beyond a limit is
// killed, and reported as an [ExitError] that wraps mcp.ErrMemoryLimit or
// mcp.ErrCPULimit. How many files a process may have open, and how long it may compute,
// the system keeps as well (setrlimit), and that nothing of its memory gets into a core
// file.
//
// Where the host may divide its control group (see below) and the system offers control
// of memory there, the system keeps the limit of memory as well, by the group of each
// child: at once, swap and files in memory included, pages that are shared counted once.
// What it kills is reported in the same way. For that the host has to be the only one in
// its group, as it is in a unit with Delegate=memory: it moves to a group below that one,
// kalpa-host, with its supervisor. Elsewhere, a server that takes all of the machine's
// memory within a second is the system's to end. [Enforced] says which of the two is so.
// Processor time is that of the group where there is one, and so misses nothing that came
// and went between two looks.
//
// A server that ends before it has said anything, [Config].CrashLimit times in a row, is
// in a crash loop: Build refuses at once, with the last words, and lets one try through
// after a second, two, four, up to a minute. [Plugin.Status] shows that, and how the last
// ones have ended; so it does for a server that can't be started at all, such as one whose
// command is not there. [Plugin.Configure] changes what is started from then on.
//
// # Nothing is left behind
//
// On Linux the children are not the host's own. The host starts its own program
// once more as their supervisor, one for each Config.RunDir, which starts the
// children on the host's behalf and is joined to the host by a socket. This holds,
// with nothing in main to call for it:
//
//   - When the host ends, in whatever way, kill -9 included, the socket closes, and
//     the supervisor kills all its descendants until there are none, and ends. It is
//     in a session of its own and ignores the signals that a terminal or a service
//     manager sends to all of a program's processes. A dead host's children are
//     gone within milliseconds as a rule; 2 seconds is what the tests grant.
//   - It is the adopter of orphans (a child subreaper): a process that has left its
//     parent, its group and its session is still its descendant.
//   - Where it may make control groups (version 2, Linux 5.14: the host is root, or
//     has a delegated tree), each child has one, and is killed by it: then no
//     disguise and no fork can outrun it, and the end of one session finds exactly
//     what belongs to it.
//   - Elsewhere, the end of one session finds what belongs to it by parent, process
//     group, session, and the mark that each child carries in its environment
//     (KALPA_RUNTIME).
//   - When the supervisor is killed, the kernel kills the children themselves, and
//     the host kills what they had started, by control group and by mark; it reports
//     all runtimes as exited, and the next Build starts another supervisor.
//   - When both are killed, the kernel still kills the children themselves. What
//     these had started is found by [Sweep] at the next start, through a record in
//     Config.RunDir. It kills nobody else: a process is known by pid and start time,
//     on the same run of the machine and in the same container, else by the mark.
//
// # What can still escape
//
//   - What another service starts on a child's behalf: systemd-run, at, cron, a
//     container (docker run leaves its container running: give it --init and --rm, and
//     it ends with its stdin, most often), a process on another machine. They never
//     were descendants.
//   - Without control groups, a process that has left its parent, group and session
//     and cleaned its environment can't be told from another session's. It lives on
//     after its session, until no session of the supervisor has a runtime, or the
//     host ends; it escapes if the supervisor is killed before.
//   - What had been started by children, between a kill -9 of both host and
//     supervisor and the next start with the same RunDir; for ever without a RunDir.
//   - A child that kills the supervisor on purpose: it is the same user. It dies of
//     it, but what it has disguised first does not. Run servers that you don't trust
//     so far in containers.
//   - A program that changes its user (setuid) may not be signalled by a host that
//     is not root, except through its control group.
//   - A process that is stuck in the kernel ("D" in ps) dies when the kernel lets it.
//     Close returns an error then, and the supervisor keeps trying for a minute after
//     the host's end.
//
// On other Unix systems there is no supervisor: a child and its process group end
// with Close and with an orderly end of the host; after a kill -9 of the host a
// child ends only if it heeds the end of its stdin, as MCP servers should. Windows
// is not supported: Build says so.
//
// # The supervisor and the program around it
//
// The supervisor is the host's own program, started through /proc/self/exe with
// another name, and recognized in this package's initialization, before main: so
// a program's initializers run in it too. They should not start anything. It
// was measured to keep 6 MB resident with two children, and 10 MB with 500.
package stdio
