package guarantees

import (
	"fmt"
	"strings"
)

// Guard names the test that shows a guarantee, and a line that it guards: with the
// line taken out the test fails, which `go test ./internal/guarantees -guards` tries.
type Guard struct {
	Holds string // what the test shows
	Test  string // its package's folder and its name: "e2e TestX", with a subtest where that is enough
	File  string // in which the line is
	Func  string // in which it is
	Line  string // as it stands there
	// Instead stands in its place when it is taken out; empty where nothing needs to.
	Instead string
}

const (
	rawAlive = "e2e TestRawClientSeesWhatIsGuaranteed/2025-11-25_stream_alive"
	rawCut   = "e2e TestRawClientSeesWhatIsGuaranteed/2025-11-25_stream_cut_before"
	rawOlder = "e2e TestRawClientSeesWhatIsGuaranteed/2025-06-18_stream_cut_before"
	rawKill  = "e2e TestRawClientSeesWhatIsGuaranteed/2025-11-25_killed_and_restarted"
	official = "e2e TestOfficialClientSeesWhatIsGuaranteed"
)

var guards = []Guard{
	{
		"a request whose stream is alive is answered on it, by the session's next incarnation (I1)", rawAlive + "/after-delivery_memory_limit",
		"mcp/front/exchange.go", "take", "return x.broken(d.End.Err)", "return x.park(session.Lost(session.ReasonUnanswered), 0)",
	},
	{
		"the official client sees the same (I1)", official + "/stream_alive/before-commit",
		"mcp/session/streams.go", "onAttach", "s.onPost(&p, now, o)", "refuse(a.Socket, Refuse(503, \"\", wire.InternalError, \"lost\"), o)",
	},
	{
		"what the next incarnation finds owed is answered as lost, after kill -9 too (I1, I3)", rawKill + "/after-delivery",
		"mcp/session/load.go", "load", "s.lose(r, l, o)", "_ = l",
	},
	{
		"the official client learns of it by itself (I1)", official + "/killed_and_restarted/after-delivery",
		"mcp/session/load.go", "load", "s.lose(r, l, o)", "_ = l",
	},
	{
		"a request that was not stored is not lost: its front hands it on (rule e)", rawAlive + "/before-commit",
		"mcp/session/streams.go", "onAttach", "s.onPost(&p, now, o)", "refuse(a.Socket, Refuse(503, \"\", wire.InternalError, \"lost\"), o)",
	},
	{
		"the loss names its cause", rawAlive + "/after-delivery_memory_limit",
		"mcp/session/object.go", "Start", "return LostTo(last.Cause)", "_ = last",
	},
	{
		"`started` is true from when the server may have seen the request (rule i)", rawAlive + "/after-delivery_memory_limit",
		"mcp/session/runtime.go", "send", "r.out, r.Gen, r.Started = s.rt.next, s.rt.gen, true", "r.out, r.Gen = s.rt.next, s.rt.gen",
	},
	{
		"`started` is false where it can't have (rule i)", rawAlive + "/after-commit",
		"mcp/session/post.go", "onPost", "Method: m.Method(), ", "Method: m.Method(), Started: true, ",
	},
	{
		"a result is stored before it is sent, and the next incarnation sends it (I2, I11)", rawAlive + "/after-result",
		"mcp/session/streams.go", "append", "o.put(eventKey(st.last), m.Bytes())", "",
	},
	{
		"a client that was cut off gets every event once, in order (I11)", rawCut + "/between-events",
		"mcp/session/streams.go", "attach", "st.replaying, st.sent = true, after", "st.sent = after",
	},
	{
		"what is written for a client that has left is kept (I11)", rawOlder + "/before-flush",
		"mcp/front/exchange.go", "flush", "return err // the system would take it, and nobody would read it", "_ = err",
	},
	{
		"a client that holds no event id is told on any GET (I1)", rawCut + "/after-commit",
		"mcp/session/streams.go", "onGet", "\t}\n\ts.unheard(g.Socket, now, o)\n", "\t}\n",
	},
	{
		"also on a GET that it resumes (I1)", "mcp/session TestLostAnswersReachAResumedGetI1",
		"mcp/session/streams.go", "onGet", "s.attach(st, g.Socket, after, now, o)\n\t\t\ts.unheard(g.Socket, now, o)", "s.attach(st, g.Socket, after, now, o)",
	},
	{
		"a GET takes no answer away from a POST that is being handed on", "mcp/session TestAGetDoesNotOutrunTheFrontOfAPost",
		"mcp/session/streams.go", "unheard", "p.loaded && now.Sub(p.detached) < headStart", "false",
	},
	{
		"what was handed on once is not executed again (rule e)", "mcp/session TestAGetDoesNotOutrunTheFrontOfAPost",
		"mcp/session/streams.go", "onAttach", "st == nil && !s.wasHere(id)", "st == nil",
	},
	{
		"a GET that is handed on is the stream that it was (I11)", "mcp/session TestAGetThatIsPassedOnIsOneStreamI11",
		"mcp/session/streams.go", "onGet", "st := s.streams[getStream(g.Stream)]; st != nil", "st := s.streams[getStream(g.Stream)]; st != nil && false",
	},
	{
		"of a batch, what was answered is not answered again (I1)", "e2e TestOnlyTheRestOfABatchIsLost",
		"mcp/session/post.go", "settleRow", "s.strike(r, o)", "",
	},
	{
		"the first answer counts: result, deadline, cancel, loss (rule c)", "mcp/session TestDischargeSucceedsOnceRuleC",
		"mcp/session/post.go", "discharge", "if !s.settleRow(r, o) {\n\t\treturn\n\t}", "s.settleRow(r, o)",
	},
	{
		"an answer that is not owed never reaches a client (I1)", "mcp/front TestWire/answered-twice",
		"mcp/front/exchange.go", "write", "if !owed && x.owes != nil {", "if !owed && x.owes != nil && false {",
	},
	{
		"a server's process that is killed is answered for at once", "e2e TestServerThatIsKilledInMidCallIsAnsweredForAndReplaced",
		"mcp/session/runtime.go", "onExited", "s.lose(r, l, o)", "_ = l",
	},
	{
		"the next server is told the log level again", "e2e TestServerThatIsKilledInMidCallIsAnsweredForAndReplaced",
		"mcp/session/runtime.go", "opened", "s.request(\"logging/setLevel\", s.level, o)", "",
	},
	{
		"and the subscriptions", "e2e TestServerThatIsKilledInMidCallIsAnsweredForAndReplaced",
		"mcp/session/runtime.go", "opened", "s.request(\"resources/subscribe\", s.subs[uri], o)", "_ = uri",
	},
	{
		"nothing of a server that is gone reaches a client (rule d)", "mcp/session TestOlderGenerationsAreNotHeardRuleD",
		"mcp/session/runtime.go", "onMessage", "e.gen != s.rt.gen || ", "",
	},
	{
		"a request runs into its ceiling, and is answered", "cmd TestScripts/deadline",
		"mcp/session/policy.go", "enforce", "s.expireRow(v.row, Lost(ReasonDeadline), now, o)", "s.settleRow(v.row, o)",
	},
	{
		"a front never answers in the place of a session that still may", "mcp/front TestAFrontWaitsLongerThanItsSessions",
		"mcp/front/limits.go", "deadline", "return ceiling + DeadlineMargin", "return ceiling",
	},
	{
		"a front whose session does not answer does, and counts it: the last resort (I1)", "mcp/front TestWire/last-resort",
		"mcp/front/attach.go", "lastResort", "answers := x.owes.lost(why)", "answers := x.owes[:0].lost(why)",
	},
	{
		"a client that has been told by a front is not told again (rule h)", "mcp/session TestMarkOfTheLastResortDischargesSilentlyRuleH",
		"mcp/session/streams.go", "onGet", "after = s.told(st, now, o)", "",
	},
	{
		"nothing leaves a session before what it rests on is durable (I2)", "actor TestNothingLeavesBeforeItsWritesAreDurableI2",
		"actor/gate.go", "drain", " && g.under.waiting[0].behind <= g.durable", "",
	},
	{
		"the happy path is byte for byte what it was", "e2e TestHappyPathIsByteForByteTheSame",
		"mcp/front/sse.go", "event", "b = append(b, \"event: message\\n\"...)", "",
	},
	{
		"storms: no call is told twice, with no kill in between (I1)", "e2e TestStorm",
		"mcp/session/object.go", "Start", "obj.s.step(&Flushed{Event: e.String()}, t.Now(), o)", "_ = e",
	},
	{
		"killed at any commit, `started: false` is a proof (rule i)", "e2e TestKilledAtEachCommitBoundary/child_2025-03-26_kill-before-commit",
		"mcp/session/runtime.go", "send", "r.out, r.Gen, r.Started = s.rt.next, s.rt.gen, true", "r.out, r.Gen = s.rt.next, s.rt.gen",
	},
	{
		"the next server is started when the one before is gone (rule k)", "e2e TestNothingOfAServerWhoseTimeIsOverReachesAnybody/a_session",
		"mcp/session/resident.go", "live", "if rt.svc.succeed(rt) {\n\t\t\treturn false\n\t\t}", "rt.svc.succeed(rt)",
	},
	{
		"a client that was cut off is told that its initialize was lost (I1)", "mcp/session TestLostInitializeIsToldToAClientThatComesBack",
		"mcp/session/streams.go", "onGet", "if st, after := s.left(g); st != nil {", "if st, after := s.left(g); st != nil && false {",
	},
	{
		"what clients have is written down although resets follow each other (I1)", "mcp/session TestConfirmedFlushIsWrittenDownBetweenResets",
		"mcp/session/object.go", "Start", "obj.s.tidy(o)", "",
	},
}

// Guards are all of them.
func Guards() []Guard { return append([]Guard(nil), guards...) }

// Split is the folder of the test's package, and its name.
func (g Guard) Split() (folder, test string) {
	folder, test, _ = strings.Cut(g.Test, " ")
	return folder, test
}

// Function is the test function's name.
func (g Guard) Function() string {
	_, test := g.Split()
	name, _, _ := strings.Cut(test, "/")
	return name
}

// GuardTable is [Guards] for docs/guarantees.md.
func GuardTable() string {
	var s strings.Builder
	fmt.Fprint(&s, "| what holds | the test | fails without |\n|---|---|---|\n")
	for _, g := range guards {
		folder, test := g.Split()
		line := strings.Join(strings.Fields(strings.TrimSpace(g.Line)), " ")
		line, _, _ = strings.Cut(line, " // ")
		fmt.Fprintf(&s, "| %s | `%s` in `%s` | `%s` in `%s`, %s |\n", g.Holds, test, folder, strings.ReplaceAll(line, "|", `\|`), g.Func, g.File)
	}
	return s.String()
}
