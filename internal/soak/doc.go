// Package soak runs the program as its users do, and judges it from outside: a host
// process with its store on a disk, clients over real HTTP, and a weather of resets,
// kill -9, SIGSTOP and full disks that is drawn from a seed. Unlike in a simulation the
// seed gives the plan alone: what the machine makes of it differs from run to run.
//
// A [Resumer] is one client and its session, a [Host] the process, a [Storm] all of it
// together. A [Judgement] says what each client's [Account] shows to be wrong:
//
//   - every request that was accepted is answered, once, and on a stream that may carry
//     it (I1); an answer that was stored has come;
//   - no increment that was acknowledged is lost, and none was made for a request that is
//     said not to have been started (I2, I3);
//   - epochs grow (I4), and an event id means the same for ever, in order (I11);
//   - when nobody calls, the gauge of resident runtimes comes back to zero (I7, I9), and
//     no process is left.
//
// Nothing imports it but commands and tests.
package soak
