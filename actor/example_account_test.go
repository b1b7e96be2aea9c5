package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strconv"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/storage"
)

// An account is an object. Its code is ordinary Go, and runs one turn at a time.
type account struct{ state *actor.State }

type transfer struct {
	To     string `json:"to"`
	Amount int    `json:"amount"`
}

var errPoor = errors.New("there is not enough money")

var (
	accounts = actor.Define("account", func(_ context.Context, s *actor.State) (*account, error) { return &account{s}, nil })

	deposit = actor.Method(accounts, "deposit", func(a *account, _ context.Context, amount int) (int, error) {
		balance, err := a.balance()
		if err != nil {
			return 0, err
		}
		// What is written with no await in between is one commit, and the result leaves
		// when that is durable.
		return balance + amount, a.state.Put("balance", []byte(strconv.Itoa(balance+amount)))
	})
	balance = actor.Method(accounts, "balance", func(a *account, _ context.Context, _ struct{}) (int, error) { return a.balance() })
)

func (a *account) balance() (int, error) {
	v, err := a.state.Get("balance")
	if err != nil || v == nil {
		return 0, err
	}
	return strconv.Atoi(string(v))
}

// send is a method that needs the host: it calls another object.
func send(h *actor.Host) actor.Call[transfer, int] {
	return actor.Method(accounts, "send", func(a *account, ctx context.Context, t transfer) (int, error) {
		left, err := a.balance()
		if err != nil {
			return 0, err
		}
		if left -= t.Amount; left < 0 {
			return 0, errPoor
		}
		if err := a.state.Put("balance", []byte(strconv.Itoa(left))); err != nil {
			return 0, err
		}
		// The call leaves when the write is durable. Others may use this account while it
		// waits. It is sent again if the other account is reset, and is booked once. What is
		// to be done if even that fails is the program's to decide.
		_, err = deposit.DoOnce(ctx, h.Stub(accounts.ID(t.To)), t.Amount)
		return left, err
	})
}

func Example() {
	store := storage.NewMemory() // or pebble.Open
	defer store.Close()
	h, err := actor.NewHost(actor.Options{Store: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	accounts.Register(h)
	pay := send(h)
	if err := h.Start(); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer h.Shutdown(ctx)

	alice, bob := h.Stub(accounts.ID("alice")), h.Stub(accounts.ID("bob"))
	fmt.Println(deposit.Do(ctx, alice, 100))
	fmt.Println(pay.Do(ctx, alice, transfer{"bob", 30}))
	fmt.Println(pay.Do(ctx, alice, transfer{"bob", 300}))

	h.Reset(bob.ID(), actor.MemoryLimit, nil) // its memory is gone, its storage is not
	fmt.Println(balance.Do(ctx, bob, struct{}{}))
	// Output:
	// 100 <nil>
	// 70 <nil>
	// 0 there is not enough money
	// 30 <nil>
}
