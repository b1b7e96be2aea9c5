package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

func ExampleState_Transaction() {
	type stock struct{ state *actor.State }
	stocks := actor.Define("stock", func(_ context.Context, s *actor.State) (*stock, error) {
		return &stock{s}, s.Put("apples", []byte("3"))
	})
	take := actor.Method(stocks, "take", func(o *stock, ctx context.Context, what string) (string, error) {
		err := o.state.Transaction(ctx, func(context.Context) error {
			if err := o.state.Put(what, []byte("0")); err != nil {
				return err
			}
			return errors.New("the basket has a hole") // takes back what was written
		})
		left, _ := o.state.Get(what)
		return fmt.Sprintf("%v: %s are left", err, left), nil
	})

	store := storage.NewMemory()
	defer store.Close()
	h, err := actor.NewHost(actor.Options{Store: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	stocks.Register(h)
	ctx := context.Background()
	defer h.Shutdown(ctx)
	fmt.Println(take.Do(ctx, h.Stub(stocks.ID("main")), "apples"))
	// Output: the basket has a hole: 3 are left <nil>
}
