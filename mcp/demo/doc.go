// Package demo is the MCP server that runs when nothing else is configured. It shows
// what a hosted session can do, and provokes on purpose what production does by
// accident.
//
//	echo   {text}        the text
//	add    {a, b}        the sum
//	incr   {}            a counter of the session's that survives everything
//	sleep  {ms, steps}   takes its time and reports progress
//	ask    {question}    asks the person at the client (elicitation)
//	fail   {}            a tool that fails
//	alloc  {mib}         keeps memory until free, or until the runtime is disposed of
//	free   {}            gives it back
//	spin   {ms}          burns a processor, deaf to cancellation
//
// All sessions share one server; what alloc keeps is with the session's runtime, and
// charged to its isolate.
package demo
