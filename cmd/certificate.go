package cmd

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/kalpahost/kalpa/internal/config"
)

// certificate is what clients are shown. Its files are looked at again when a client
// connects, once a second at most, and on a reload.
type certificate struct {
	log *slog.Logger

	mu     sync.Mutex
	files  config.TLS
	seen   [2]time.Time // when they were changed
	looked time.Time
	shown  *tls.Certificate
}

// look again is not worth it before.
const certificatePause = time.Second

func loadCertificate(files config.TLS) (*tls.Certificate, [2]time.Time, error) {
	var seen [2]time.Time
	for i, name := range []string{files.Cert, files.Key} {
		info, err := os.Stat(name)
		if err != nil {
			return nil, seen, &usageError{err: fmt.Errorf("%s: %w", [2]string{"--tls-cert", "--tls-key"}[i], err)}
		}
		seen[i] = info.ModTime()
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, seen, &usageError{err: fmt.Errorf("--tls-cert %s and --tls-key %s: %w", files.Cert, files.Key, err)}
	}
	return &pair, seen, nil
}

// use shows another certificate from now on.
func (c *certificate) use(files config.TLS, pair *tls.Certificate, seen [2]time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files, c.shown, c.seen, c.looked = files, pair, seen, time.Now()
}

// get is for tls.Config.GetCertificate. Files that are wrong, or half written, change
// nothing.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) < certificatePause {
		return c.shown, nil
	}
	c.looked = now
	pair, seen, err := loadCertificate(c.files)
	switch {
	case seen == c.seen:
	case err != nil:
		c.log.Warn("the certificate has changed and can't be used: clients are shown the one before", "error", err)
		c.seen = seen // once is enough
	default:
		c.log.Info("the certificate has changed", "cert", c.files.Cert)
		c.shown, c.seen = pair, seen
	}
	return c.shown, nil
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}
