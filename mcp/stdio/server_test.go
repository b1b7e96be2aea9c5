//go:build unix

package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const (
	modeVar = "STDIO_TEST_MODE" // which server this binary is to be
	tagVar  = "STDIO_TEST_TAG"  // digits that mark a server and all it starts
	fileVar = "STDIO_TEST_FILE" // what some of them wait for, or write
	hostVar = "STDIO_TEST_HOST" // makes this binary a host: see host_test.go
)

func TestMain(m *testing.M) {
	if os.Getenv(hostVar) != "" {
		hostMain()
		os.Exit(0)
	}
	if mode := os.Getenv(modeVar); mode != "" {
		serverMain(mode)
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // for the supervisors: else each takes a second to end
	goleak.VerifyTestMain(m)
}

// serverMain is the MCP server of the tests, in all its misbehaviours. Whatever
// it does besides, it answers a request with the request's params.
func serverMain(mode string) {
	out := os.Stdout
	tag := os.Getenv(tagVar)
	switch mode {
	case "echo":
	case "banner":
		fmt.Println("Welcome to my server\n\n[1,2")
		fmt.Println(`{"jsonrpc":"1.0","id":1,"method":"nonsense"}`)
		fmt.Println(`{"jsonrpc":"2.0","method":"notifications/early"}`)
	case "batch":
		fmt.Println(`[{"jsonrpc":"2.0","method":"one"},{"jsonrpc":"2.0","method":"two"}]`)
	case "dies in initialize":
		bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Fprintln(os.Stderr, "no API key: \x1b[31mset FOO_KEY\x1b[0m")
		os.Exit(3)
	case "dies by signal":
		fmt.Fprintln(os.Stderr, "about to go")
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "answers and exits":
		for i := range 40 {
			answer(out, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"n%d"}`, i))
		}
		fmt.Fprintln(os.Stderr, "bye")
		os.Exit(7)
	case "closes stdout":
		fmt.Fprintln(os.Stderr, "stdout is not needed")
		out.Close()
		select {}
	case "closes stdin":
		syscall.Close(0)
		fmt.Println(`{"jsonrpc":"2.0","method":"deaf"}`)
		hang()
	case "reads late":
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		for {
			if _, err := os.Stat(os.Getenv(fileVar)); err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	case "reads nothing":
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		hang()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		hang()
	case "waits for SIGTERM":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		<-c
		os.WriteFile(os.Getenv(fileVar), []byte("terminated"), 0o600)
		os.Exit(0)
	case "grandchildren": // one in the group, one that has left session and parent
		shell(fmt.Sprintf("sleep 1000.%s & (setsid sleep 1000.%s &) &", tag, tag))
	case "clean grandchild": // has left session, parent and environment
		shell(fmt.Sprintf("(env -i $(command -v setsid) $(command -v sleep) 1000.%s &) &", tag))
	case "many":
		for range 40 {
			shell(fmt.Sprintf("(setsid sleep 1000.%s &) & sleep 1000.%s &", tag, tag))
		}
	case "forks for ever": // in new sessions, each with a child that does the same
		signal.Ignore(syscall.SIGTERM)
		script := filepath.Join(os.Getenv("TMPDIR"), "fork")
		os.WriteFile(script, []byte("trap '' TERM\nwhile :; do setsid sh -c 'trap \"\" TERM; sleep 1000."+tag+" & sleep 0.05' & sleep 0.02; done\n"), 0o600)
		cmd := exec.Command("setsid", "sh", script)
		cmd.Start()
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		hang()
	case "grows": // to what is asked for, and then to more
		hog(32)
		fmt.Println(`{"jsonrpc":"2.0","method":"grown"}`)
		bufio.NewReader(os.Stdin).ReadString('\n')
		hog(256)
		hang()
	case "grows elsewhere": // in a process of another session
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), modeVar+"=grows")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		in, _ := cmd.StdinPipe()
		cmd.Start()
		fmt.Fprintln(in)
		hang()
	case "computes in passing": // in processes that are nobody's and end at once
		exec.Command("sh", "-c", `while :; do (setsid sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done' &); sleep 0.3; done`).Run()
	case "spins":
		fmt.Println(`{"jsonrpc":"2.0","method":"spinning"}`)
		for x := 1; x != 0; x |= 1 {
			kept = nil
		}
	case "dies at once":
		fmt.Fprintln(os.Stderr, "no luck today")
		if _, err := os.Stat(os.Getenv(fileVar)); err != nil {
			os.Exit(4)
		}
	case "floods stderr":
		line := bytes.Repeat([]byte("x"), 99)
		for i := range 50_000 {
			fmt.Fprintf(os.Stderr, "%06d %s\n", i, line)
		}
	case "long stderr line":
		os.Stderr.Write(bytes.Repeat([]byte("y"), 1<<20))
		fmt.Fprintln(os.Stderr, "\nthe last words")
	default:
		panic("no such server: " + mode)
	}
	serve(os.Stdin, out)
}

var kept [][]byte

// hog takes memory, in MiB.
func hog(mib int) {
	b := make([]byte, mib<<20)
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	kept = append(kept, b)
}

// hang waits, with a timer so that the Go runtime sees no deadlock.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

func shell(script string) {
	cmd := exec.Command("sh", "-c", script)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		panic(err)
	}
}

func answer(w io.Writer, m []byte) { w.Write(append(m, '\n')) }

func serve(in io.Reader, out io.Writer) {
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			answer(out, []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`))
			continue
		}
		if m.ID == nil {
			continue
		}
		if m.Params == nil {
			m.Params = []byte("null")
		}
		var result any = m.Params
		switch m.Method {
		case "limits":
			var files, core, cpu unix.Rlimit
			unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
			unix.Getrlimit(unix.RLIMIT_CORE, &core)
			unix.Getrlimit(unix.RLIMIT_CPU, &cpu)
			result = []uint64{files.Max, core.Max, cpu.Max}
		case "env":
			result = os.Environ()
		case "dir":
			result, _ = os.Getwd()
		case "ids":
			sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
			result = []int{os.Getpid(), syscall.Getpgrp(), int(sid)}
		case "big":
			var size struct{ N int }
			json.Unmarshal(m.Params, &size)
			result = strings.Repeat("b", size.N)
		case "flood":
			for i := 0; ; i++ {
				answer(out, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"flood","params":{"i":%d}}`, i))
			}
		case "exit":
			os.Exit(7)
		}
		b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
		if err != nil {
			panic(err)
		}
		answer(out, b)
	}
}
