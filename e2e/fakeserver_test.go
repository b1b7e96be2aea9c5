package e2e

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The fake server is an MCP server on stdin and stdout that tells a journal what it
// was sent, and misbehaves on request. Its tools:
//
//	echo  {text}              the text
//	id    {}                  the id that the server was sent
//	env   {name}              a variable of its environment
//	big   {bytes}             a text of that many bytes
//	wait  {ms, text}          the text, later; annotated as read-only
//	steps {count, ms}         reports progress, then answers; annotated as idempotent
//	later {count, ms, method} answers, and then sends notifications of no request
//	ask   {method}            asks the client something and answers with the answer
//	spawn {}                  starts a process that detaches itself and ignores SIGTERM; answers its pid
//	die   {}                  ends in mid-call, with last words
//	haunt {}                  does not answer, until its stdin ends or SIGTERM comes; then
//	                          it does not end either, and sends all that it can
type fakeServer struct {
	journalFile string

	mu      sync.Mutex // guards stdout and what follows
	out     *bufio.Writer
	asked   int
	waiting map[string]chan json.RawMessage
	haunts  json.RawMessage // the id of a call of haunt
}

// fake returns the command that runs the fake server.
func fake(args ...string) []string { return append([]string{os.Args[0], fakeServerArg}, args...) }

// entry is one line of a journal.
type entry struct {
	PID    int             `json:"pid"`
	Method string          `json:"method"` // "start" for the start of a process
	ID     json.RawMessage `json:"id,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// journal is a file in which fake servers write what they were sent.
type journal struct {
	t    testing.TB
	path string
}

func newJournal(t testing.TB) *journal {
	t.Helper()
	return &journal{t, filepath.Join(t.TempDir(), "journal")}
}

// entries are those of one method, or all.
func (j *journal) entries(method string) []entry {
	j.t.Helper()
	data, err := os.ReadFile(j.path)
	if err != nil && !os.IsNotExist(err) {
		j.t.Fatal(err)
	}
	var all []entry
	for line := range strings.Lines(string(data)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			j.t.Fatalf("journal: %v: %q", err, line)
		}
		if method == "" || e.Method == method {
			all = append(all, e)
		}
	}
	return all
}

// starts is how many servers were started.
func (j *journal) starts() int { j.t.Helper(); return len(j.entries("start")) }

func (s *fakeServer) note(method string, id, params json.RawMessage) {
	if s.journalFile == "" {
		return
	}
	line, _ := json.Marshal(entry{os.Getpid(), method, id, params})
	f, err := os.OpenFile(s.journalFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = f.Write(append(line, '\n'))
	f.Close()
}

func runFakeServer(args []string) int {
	s := &fakeServer{out: bufio.NewWriter(os.Stdout), waiting: map[string]chan json.RawMessage{}}
	flags := flag.NewFlagSet(fakeServerArg, flag.ExitOnError)
	flags.StringVar(&s.journalFile, "journal", "", "a file that is told what the server was sent")
	banner := flags.Bool("banner", false, "print what is no message before and between messages")
	early := flags.Bool("early", false, "send notifications before initialize is answered")
	refuse := flags.Bool("refuse", false, "end while initialize is waiting, with last words on stderr")
	mute := flags.Bool("mute", false, "close stdout when initialize comes, and stay alive")
	slow := flags.Duration("slow", 0, "how long initialize takes")
	roots := flags.Bool("roots", false, "ask for the client's roots once it is initialized, as many servers do")
	detached := flags.Bool("detached", false, "be the process that spawn starts")
	_ = flags.Parse(args)
	if *detached {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		time.Sleep(time.Minute)
		return 0
	}
	s.note("start", nil, nil)
	if *banner {
		s.print("*** Fake MCP server, ready to serve ***", "", "{not json", `"a string"`, `{"no":"message"}`)
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			s.haunt()
			return 0
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			fmt.Fprintf(os.Stderr, "not a message: %.200q\n", line)
			continue
		}
		if m.Method == "" {
			s.mu.Lock()
			answer := s.waiting[string(m.ID)]
			s.mu.Unlock()
			if answer != nil {
				answer <- json.RawMessage(strings.TrimSpace(string(line)))
			}
			continue
		}
		s.note(m.Method, m.ID, m.Params)
		switch {
		case m.ID == nil:
			if *roots && m.Method == "notifications/initialized" {
				go s.ask("roots/list")
			}
		case m.Method == "initialize":
			if *refuse {
				fmt.Fprintln(os.Stderr, "first words")
				fmt.Fprintln(os.Stderr, "fatal: the API key is missing")
				return 7
			}
			if *mute {
				os.Stdout.Close()
				time.Sleep(time.Minute)
				return 0
			}
			if *early {
				s.notify("notifications/message", `{"level":"info","data":"early"}`)
				s.notify("notifications/tools/list_changed", `{}`)
			}
			time.Sleep(*slow)
			s.initialize(m)
			if *banner {
				s.print("*** a client has come ***")
			}
		default:
			go s.serve(m)
		}
	}
}

func (s *fakeServer) print(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range lines {
		_, _ = s.out.WriteString(line + "\n")
	}
	_ = s.out.Flush()
}

func (s *fakeServer) notify(method, params string) {
	s.print(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

func (s *fakeServer) result(id json.RawMessage, result string) {
	s.print(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func (s *fakeServer) text(id json.RawMessage, text string) {
	quoted, _ := json.Marshal(text)
	s.result(id, fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted))
}

// ask sends the client a request and waits for its answer.
func (s *fakeServer) ask(method string) json.RawMessage {
	answer := make(chan json.RawMessage, 1)
	s.mu.Lock()
	s.asked++
	id := fmt.Sprint(s.asked)
	s.waiting[id] = answer
	s.mu.Unlock()
	s.print(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`, id, method))
	return <-answer
}

// haunt is what a server does whose time is over, if it was called to: all that it
// could do in time.
func (s *fakeServer) haunt() {
	s.mu.Lock()
	id := s.haunts
	s.mu.Unlock()
	for n := 0; id != nil; n++ {
		s.text(id, "ghost")
		s.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":"ghost"}`, id, n+1))
		s.notify("notifications/message", `{"level":"info","data":"ghost"}`)
		s.print(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"ghost","requestedSchema":{"type":"object","properties":{}}}}`, n))
		s.note("ghost", nil, nil)
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *fakeServer) initialize(m message) {
	var p struct{ ProtocolVersion string }
	_ = json.Unmarshal(m.Params, &p)
	switch p.ProtocolVersion {
	case v2024, vMar, vJun, vNov:
	default:
		p.ProtocolVersion = vNov
	}
	s.result(m.ID, fmt.Sprintf(`{"protocolVersion":%q,"serverInfo":{"name":"fake","version":"1"},"capabilities":{`+
		`"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"logging":{},"completions":{}}}`,
		p.ProtocolVersion))
}

func (s *fakeServer) serve(m message) {
	switch m.Method {
	case "tools/call":
		s.call(m)
	case "tools/list":
		s.result(m.ID, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},`+
			`{"name":"wait","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},`+
			`{"name":"steps","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}]}`)
	case "resources/list":
		s.result(m.ID, `{"resources":[{"name":"a","uri":"fake://a"}]}`)
	case "resources/templates/list":
		s.result(m.ID, `{"resourceTemplates":[{"name":"x","uriTemplate":"fake://{x}"}]}`)
	case "resources/read":
		s.result(m.ID, `{"contents":[{"uri":"fake://a","text":"the letter a"}]}`)
	case "prompts/list":
		s.result(m.ID, `{"prompts":[{"name":"p"}]}`)
	case "prompts/get":
		s.result(m.ID, `{"messages":[{"role":"user","content":{"type":"text","text":"please"}}]}`)
	case "completion/complete":
		s.result(m.ID, `{"completion":{"values":["one","two"]}}`)
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		s.result(m.ID, `{}`)
	default:
		s.print(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID))
	}
}

func (s *fakeServer) call(m message) {
	var p struct {
		Name      string
		Arguments struct {
			Text, Name, Method string
			Bytes, MS, Count   int
		}
		Meta struct {
			ProgressToken json.RawMessage
		} `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p)
	a := p.Arguments
	pause := time.Duration(a.MS) * time.Millisecond
	switch p.Name {
	case "echo":
		s.text(m.ID, a.Text)
	case "id":
		s.text(m.ID, string(m.ID))
	case "env":
		s.text(m.ID, os.Getenv(a.Name))
	case "big":
		s.text(m.ID, strings.Repeat("x", a.Bytes))
	case "wait":
		time.Sleep(pause)
		s.text(m.ID, a.Text)
	case "steps":
		for i := range a.Count {
			time.Sleep(pause)
			if p.Meta.ProgressToken != nil {
				s.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":%d}`, p.Meta.ProgressToken, i+1, a.Count))
			}
		}
		s.text(m.ID, "done")
	case "later":
		s.text(m.ID, "soon")
		for i := range a.Count {
			time.Sleep(pause)
			params := fmt.Sprintf(`{"level":"info","data":%d}`, i+1)
			if a.Method == "" {
				a.Method = "notifications/message"
			} else if a.Method == "notifications/resources/updated" {
				params = `{"uri":"fake://a"}`
			} else if a.Method != "notifications/message" {
				params = `{}`
			}
			s.notify(a.Method, params)
		}
	case "ask":
		s.text(m.ID, string(s.ask(a.Method)))
	case "spawn":
		child := exec.Command(os.Args[0], fakeServerArg, "-detached")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			s.text(m.ID, err.Error())
			return
		}
		s.text(m.ID, fmt.Sprint(child.Process.Pid))
	case "haunt":
		signal.Ignore(syscall.SIGTERM)
		s.mu.Lock()
		s.haunts = m.ID
		s.mu.Unlock()
		s.note("haunting", m.ID, nil)
	case "die":
		fmt.Fprintln(os.Stderr, "these are my last words")
		os.Exit(9)
	default:
		s.print(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such tool"}}`, m.ID))
	}
}
