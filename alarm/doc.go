// Package alarm fires the durable alarms of objects: one for each object, at
// least once, and never before its time. Above the one alarm it has schedules:
// many deadlines, each with its own retries, and those of the object's owner.
//
// # Concepts
//
// An alarm is a row of its object, set in the same commit as the data that it is
// about, and an entry of the store's alarm index, which is ordered by time. The
// row is the alarm; everything in this package's memory is a hint of where to
// look. A [Dispatcher] reads the index forward and hands what is due to a
// [Target], the host of the objects. The target activates the object, compares,
// runs the handler, and completes the row with the handler's own commit.
//
// # What holds
//
// At least once. A row leaves the index only by a commit of its object. Whatever
// happens to a firing (the object was reset, the host was overloaded, the process
// died) the row is still there, and is fired again: after a back-off, or by the
// next start, also years later.
//
// Never early. A row is fired when the wall clock of the injected Clock has
// reached its time. The wall clock may jump either way; while an alarm is pending
// it is read at least once a second, since timers don't follow its jumps.
//
// Not starved. When the wall clock is put back by a second or more, each object
// with an alarm is asked, within a second, to derive it anew ([Rearmer]): a wait
// (a delay, an interval, a back-off, a limit) is as long as it was meant to be,
// and a time is a time. Of cron, what runs every hour goes by the new clock, and
// what runs at fixed hours is not run twice when the clock is put back by three
// hours or less. A clock that is put back while no host runs is noticed by each
// object when it is next woken, since its rows say when they were written.
//
// One at a time. An object has at most one alarm in flight. Set anew while its
// handler runs, it is fired after that, if it is due.
//
// Scheduled is not later than persisted. The time for which this package has
// planned to look never lies after a row that a commit has been confirmed for:
// [storage.Store.OnAlarm] brings an alarm that moves earlier before the commit is
// confirmed. One that has moved later, or has gone, is looked for in vain, and
// that is all.
//
// Nothing pending, nothing armed. While an alarm is pending its row is looked for
// once a second, at the cost of one read; when there is none, no timer is armed.
// (An object that backs off keeps a timer armed until it is over, row or no row.)
//
// # A row's life
//
//	set       in the index at its time
//	due       found by a scan; Fire(row, done)
//	          the target compares: not due after all, or gone: done(nil)
//	          the handler ran:          the commit deletes the row, or sets it anew
//	          the handler failed:       the commit sets it to now + Backoff, retry + 1
//	          it failed for the 7th time: the commit deletes it, loudly
//	          it could not be run:      done(err), and the row is as it was
//	done(nil) after that commit; the row is read once more, and what it says holds
//
// The two back-offs don't multiply. A handler's failure is counted in the row and
// waits in the index ([Backoff], six retries). A failure to run the handler at
// all is not counted, waits in memory, and has no end ([BackoffUncounted]). It
// ends early when the object sets its alarm: it is alive then.
//
// A row that still has the same time after done(nil) is not fired in a loop. It
// is logged and backed off like one that could not be run. An object that sets
// its alarm to the very time that it is being fired for looks the same.
//
// # Bounds
//
// In memory there are: one position in the index, which stands for all pending
// alarms; the alarms in flight (MaxInFlight); a page of rows while it is being
// read; and the objects that back off (MaxDeferred). When more objects than that
// can't be run, the rest share one back-off: their rows stay in storage, the part
// of the index that they lie in is left alone for 2 to 1,024 s, and is then read
// again. An alarm that is set during that time to a time within that part of the
// index waits with them; later times are not affected.
//
// Slow handlers take up flights: with MaxInFlight of them running, the others
// wait. The limit on a handler's time, 15 minutes, is the host's.
//
// # Concurrency
//
// A pure core decides and one goroutine executes, begun by Start and ended by
// Stop. No lock is held during a read or a call to the target. A simulator brings
// its own Options.Runner; Options.Run takes the goroutine's place where each step
// is asked for by hand.
//
// # Failure
//
// An index that can't be read is read again after 2 to 64 s. A target that never
// calls done keeps its object's alarm in flight until the next start.
//
// # The schedule layer
//
// An object has one alarm, and many want it. A [Schedule] multiplexes: delays,
// times, cron, intervals, keep-alives, a pending destroy, and the deadlines of
// the object's owner. From its first use in an incarnation on, nobody sets the
// alarm. It is derived, at the end of each turn and in that turn's commit:
//
//	Recompute(table, keep-alives, now)    the framework's answer, as it always was: a
//	                                      time, or "delete" when it has nothing
//	Reassert(answer, sources, now)        the earlier of that and what the owner wants
//
// Both are pure. [Recompute] deletes what it does not know, also just after the
// last keep-alive was released: that is how layers of this kind erase the alarm
// that somebody else has set. [Reassert] is the cure: a deadline is not set once,
// it is a [Source] that is asked after every recomputation. So what must be woken
// is woken (I7), and when no source wants anything there is no alarm (I8).
//
// A [Keeper] is the host's side. Each turn ends with Derive; an alarm begins with
// Wake, which says what there is to run. It knows an object's turn as [Rows] and
// nothing else, so that it can be driven by hand.
//
// # A schedule's life
//
//	registered  a row, and a row for its payload; refused with a typed [Error] and no
//	            change. The same again is the one that is there
//	due         Wake marks the row as running, in a commit of its own
//	run         when the mark is durable, in a turn of its own: Begin, the callback, Ran
//	succeeded   what runs once is deleted, with what the callback wrote; the rest is
//	            set to its next time
//	failed      counted in the row, which waits by its own [Policy]; the alarm does not
//	            fail, so that two back-offs don't multiply. After the last attempt
//	            it is removed, or goes on with its next time, loudly
//	hung        past its limit: its context ends with [ErrHung], and it has failed
//	cut short   by a reset or the end of the process: no attempt is lost. It runs again
//	            at once when the reset was not about it, else after a back-off: 1 s,
//	            then 30 s more each time, up to 300 s
//	poison      when it was its own demand that ran the object out of memory, that is a
//	            strike: 30 s for each, and after three in a row the row is set aside
//	unreadable  a row or a payload that does not decode, a callback that the code no
//	            longer has, cron that can't be run: set aside with its payload, unrun,
//	            and reported; the others run
//
// What runs again and again does not overlap itself, keeps to its grid or its
// cron expression however late a run was, and makes one run of all that were
// missed. While a run is in progress its object is looked at within 30 s, so if
// the machine dies it is run again within 30 s of its return.
//
// # Sources
//
// A source is code, not a row: each incarnation registers its own, when it
// starts, from what it keeps in storage. When one is due the owner's Alarm runs,
// and it must leave every source with a later time, or none: one that stays in
// the past is logged and pushed by a second. If Alarm fails it is run again after
// 2 to 64 s, as long as the source wants it.
//
// # A pending destroy
//
// It owns the alarm. The mark is durable before the reply to who asked for it;
// about a second later the object is torn down, before anything else is looked at.
// No deletion, no source and no reset gets it out of the way.
//
// # Not here
//
// Exactly once: a crash between a handler's effect and its commit runs it again.
// The time limit of an owner's handler. Timers below the resolution of an alarm
// row, a microsecond, or of the clock's second look, if it jumps.
package alarm
