package cmd

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kalpahost/kalpa/internal/admin"
	"github.com/kalpahost/kalpa/internal/config"
	"github.com/kalpahost/kalpa/storage/pebble"
)

// What the environment says about the admin listener, to hosts and to commands.
const (
	adminVariable      = "KALPA_ADMIN"
	adminTokenVariable = "KALPA_ADMIN_TOKEN"
)

// minToken is what can't be guessed in the life of a host, in characters.
const minToken = 16

func listenAdmin(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, config.UnixSocket); ok {
		return admin.ListenUnix(path)
	}
	return listen(address, "--admin")
}

// adminToken is the token for the admin listener: a file's, or else the
// environment's; empty when there is none.
func adminToken(file string) (string, error) {
	token, where := os.Getenv(adminTokenVariable), adminTokenVariable
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", &usageError{err: fmt.Errorf("--admin-token-file: %w", err)}
		}
		token, where = string(data), file
	}
	token = strings.TrimSpace(token)
	switch {
	case token == "" && file == "":
		return "", nil
	case len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", &usageError{err: fmt.Errorf("%s has no token: one has %d characters or more, and neither spaces nor letters outside ASCII", where, minToken),
			hint: "openssl rand -hex 32 makes one"}
	}
	return token, nil
}

// adminFlags say which host a command talks to.
type adminFlags struct{ address, tokenFile string }

func (f *adminFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.address, "admin", "", "ask the host with this admin `ADDRESS` (default $"+adminVariable+")")
	set.StringVar(&f.tokenFile, "admin-token-file", "", "a `FILE` with the host's admin token (default $"+adminTokenVariable+")")
}

func (f *adminFlags) client() (*admin.Client, error) {
	address := f.address
	if address == "" {
		address = os.Getenv(adminVariable)
	}
	if address == "" {
		dir := os.Getenv(dataVariable)
		if dir == "" {
			dir = config.DefaultData
		}
		address = pebble.ReadHolder(dir).Contact // that of the host that has it open
	}
	if address == "" {
		address = admin.DefaultAddress
	}
	token, err := adminToken(f.tokenFile)
	if err != nil {
		return nil, err
	}
	c, err := admin.NewClient(address, token)
	if err != nil {
		return nil, &usageError{err: err, hint: "HOST:PORT or unix:/path/of.sock, as kalpa serve --admin has it"}
	}
	return c, nil
}
