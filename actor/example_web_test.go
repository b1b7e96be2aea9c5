package actor_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/coder/websocket"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// An echo is an object that repeats what is said on its WebSockets, and counts it.
type echoes struct{ state *actor.State }

var echoers = actor.Define("echo", func(_ context.Context, s *actor.State) (*echoes, error) {
	return &echoes{s}, s.SetAutoResponse("ping", "pong")
})

func (e *echoes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/socket" {
		said, _ := e.state.Get("said")
		fmt.Fprintf(w, "%s has heard %d words", e.state.ID().Name, len(said))
		return
	}
	ws, err := e.state.AcceptWebSocket(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = ws.Send("welcome")
}

func (e *echoes) WebSocketMessage(_ context.Context, ws *actor.WebSocket, m actor.Message) error {
	said, err := e.state.Get("said")
	if err != nil {
		return err
	}
	if err := e.state.Put("said", append(said, '.')); err != nil {
		return err
	}
	return ws.Send(m.Text()) // when the row is durable
}

func ExampleState_AcceptWebSocket() {
	store := storage.NewMemory()
	defer store.Close()
	h, err := actor.NewHost(actor.Options{Store: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	echoers.Serve().Register(h)
	if err := h.Start(); err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(h.Handler())
	defer server.Close()
	ctx := context.Background()
	defer h.Shutdown(ctx)

	ws, _, err := websocket.Dial(ctx, server.URL+"/objects/echo/valley/socket", &websocket.DialOptions{HTTPClient: server.Client()})
	if err != nil {
		log.Fatal(err)
	}
	for _, word := range []string{"", "hello", "ping"} {
		if word != "" {
			_ = ws.Write(ctx, websocket.MessageText, []byte(word))
		}
		_, got, _ := ws.Read(ctx)
		fmt.Println(string(got))
	}
	_ = ws.Close(websocket.StatusNormalClosure, "")
	res, err := server.Client().Get(server.URL + "/objects/echo/valley")
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	fmt.Println(string(body))
	// Output:
	// welcome
	// hello
	// pong
	// valley has heard 1 words
}
