package stdio

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
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

// sleepers is how many processes the servers of the tests have started when
// their shells are through.
var sleepers = map[string]int{"grandchildren": 2, "clean grandchild": 1, "many": 80, "forks for ever": 3}

// waitForSleepers waits until all descendants are what they are to be: before,
// they have not yet left the group, or cleaned their environment.
func waitForSleepers(t testing.TB, tag string, modes ...string) {
	t.Helper()
	want := 0
	for _, m := range modes {
		want += sleepers[m]
	}
	eventually(t, "the descendants are there", func() bool {
		n := 0
		for _, p := range tagged(t, tag) {
			_, args, _ := strings.Cut(p, " ")
			if strings.Contains(args, `sleep\x001000.`) && !strings.Contains(args, "setsid") && !strings.Contains(args, "env") && !strings.Contains(args, `sh\x00`) {
				n++
			}
		}
		return n >= want
	})
}
