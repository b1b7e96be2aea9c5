package stdio

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// tagged finds the living processes that carry a tag in their environment or
// their arguments. It shares no code with what it checks.
func tagged(t testing.TB, tag string) (found []string) {
	t.Helper()
	dir, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range dir {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if bytes.Contains(env, []byte(tagVar+"="+tag)) || bytes.Contains(args, []byte(tag)) {
			found = append(found, fmt.Sprintf("%d %q", pid, args))
		}
	}
	return found
}
