package actor

import "context"

type callerKey struct{}

// Caller is the subject of whom an object works for: who has authenticated with the host
// for the HTTP request that it serves, and for all calls that objects make of one another
// on the way. It is empty where the host asks for no credentials, in alarms, schedules and
// background work, and in what a WebSocket brings after its request.
//
// Nothing that a client sends can set it. What it means is for the object to say: the host
// lets every caller that it knows reach every object.
func Caller(ctx context.Context) string {
	subject, _ := ctx.Value(callerKey{}).(string)
	return subject
}

// WithCaller says whom requests and calls with this context are made for. It is for who
// authenticates, in front of [Host.Handler], and for code that calls objects on somebody's
// behalf.
func WithCaller(ctx context.Context, subject string) context.Context {
	if subject == Caller(ctx) {
		return ctx
	}
	return context.WithValue(ctx, callerKey{}, subject)
}
