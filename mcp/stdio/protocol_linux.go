package stdio

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// Host and supervisor talk over a pair of connected sockets: frames of a length
// and JSON, with file descriptors beside them. That one end closes is what tells
// the other that its peer is no more.

// request is what the host says.
type request struct {
	Hello  *hello `json:",omitempty"`
	Spawn  *spawn `json:",omitempty"` // with the child's stdin, stdout and stderr
	Signal int    `json:",omitempty"` // to the group of child ID
	Kill   bool   `json:",omitempty"` // child ID and all that it has started
	ID     uint64 `json:",omitempty"`

	files []int // the descriptors that came with it
}

type hello struct {
	Instance  string
	RunDir    string `json:",omitempty"`
	HostPid   int
	HostStart uint64
	NoCgroup  bool `json:",omitempty"`
}

// spawn is a command. Bytes, because JSON would change what is not UTF-8.
type spawn struct {
	Path, Dir []byte
	Args, Env [][]byte
	Memory    int64         `json:",omitempty"` // in all, in bytes; 0: any
	Files     int           `json:",omitempty"` // that may be open; 0: as many as here
	CPU       time.Duration `json:",omitempty"` // of each process; 0: any
}

// reply is what the supervisor says.
type reply struct {
	Ready   bool        `json:",omitempty"`
	Started *startedAs  `json:",omitempty"`
	Failed  *spawnError `json:",omitempty"`
	Exited  *uint32     `json:",omitempty"` // the wait status of child ID
	Memory  string      `json:",omitempty"` // with Exited: the system has killed it for memory, and this is why
	Gone    bool        `json:",omitempty"` // nothing is left of child ID
	Log     string      `json:",omitempty"`
	Cgroup  string      `json:",omitempty"` // with Ready
	Unbound string      `json:",omitempty"` // with Ready: why the system keeps no limit of memory
	ID      uint64      `json:",omitempty"`
}

type startedAs struct {
	Pid   int
	Start uint64
}

type spawnError struct {
	Errno int
	Text  string
}

// maxFrame is above the most that Linux takes as arguments and environment of
// one program (a quarter of an 8 MiB stack), in base64.
const maxFrame = 4 << 20

func writeFrame(c *net.UnixConn, v any, files ...int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return syscall.E2BIG
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	frame = append(frame, body...)
	if len(files) == 0 {
		_, err = c.Write(frame)
		return err
	}
	n, _, err := c.WriteMsgUnix(frame[:4], syscall.UnixRights(files...), nil)
	if err != nil {
		return err
	}
	_, err = c.Write(frame[n:])
	return err
}

// readFrame reads one frame into v and returns the descriptors that came with it.
func readFrame(c *net.UnixConn, v any) (files []int, err error) {
	var head [4]byte
	oob := make([]byte, syscall.CmsgSpace(3*4))
	n, oobn, _, _, err := c.ReadMsgUnix(head[:], oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	if oobn > 0 {
		messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			fds, err := syscall.ParseUnixRights(&m)
			if err != nil {
				return files, err
			}
			files = append(files, fds...)
		}
	}
	if _, err := io.ReadFull(c, head[n:]); err != nil {
		return files, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return files, fmt.Errorf("a frame of %d bytes", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c, body); err != nil {
		return files, err
	}
	return files, json.Unmarshal(body, v)
}
