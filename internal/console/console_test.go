package console_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kalpahost/kalpa/actor"
	"github.com/kalpahost/kalpa/internal/console"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, at string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, at, nil)
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	console.Handler().ServeHTTP(w, r)
	return w
}

// files are those in the folder, by where they are served.
func files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS("page"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile("page/" + name)
		at := "/console/" + name
		if name == "index.html" {
			at = "/"
		}
		all[at] = string(data)
		return err
	})
	if err != nil || len(all) < 5 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	return all
}

func TestEveryFileIsServedWithItsTypeAndTheStrictPolicy(t *testing.T) {
	types := map[string]string{"": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
	for at, text := range files(t) {
		w := get(t, at)
		h := w.Header()
		if w.Code != http.StatusOK || w.Body.String() != text {
			t.Errorf("%s: %d, %d bytes", at, w.Code, w.Body.Len())
		}
		if want := types[path.Ext(at)]; want == "" || !strings.HasPrefix(h.Get("Content-Type"), want) {
			t.Errorf("%s is of type %q", at, h.Get("Content-Type"))
		}
		policy := map[string]string{}
		for part := range strings.SplitSeq(h.Get("Content-Security-Policy"), ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), " ")
			policy[name] = value
		}
		for name, want := range map[string]string{
			"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'", "img-src": "'self'",
			"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'",
		} {
			if policy[name] != want {
				t.Errorf("%s: the policy says %q of %s", at, policy[name], name)
			}
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", at, name, h.Get(name))
			}
		}
		if again := get(t, at, "If-None-Match", h.Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s, which the browser has: %d", at, again.Code)
		}
		if other := get(t, at, "If-None-Match", `"other"`); other.Code != http.StatusOK {
			t.Errorf("%s, of which the browser has another version: %d", at, other.Code)
		}
	}
}

func TestTheConsoleIsFoundAtItsOtherName(t *testing.T) {
	for _, at := range []string{"/console", "/console/"} {
		if w := get(t, at); w.Code != http.StatusFound || w.Header().Get("Location") != "/" {
			t.Errorf("%s: %d to %q", at, w.Code, w.Header().Get("Location"))
		}
	}
	for _, at := range []string{"/console/none.js", "/console/index.html", "/console/page", "/console/../console.go"} {
		if w := get(t, at); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", at, w.Code)
		}
	}
}

var (
	named   = regexp.MustCompile(`(?:src|href)="([^"#]+)"|(?:from|import) "([^"]+)"|url\(([^)]+)\)`)
	foreign = regexp.MustCompile(`(?i)(?:https?:)?//[a-z0-9-]+\.[a-z]`)
	inline  = regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>[^<]|<style|\sstyle=|\son[a-z]+="|javascript:|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function`)
)

// What a file names is there, nothing is anywhere else, and nothing is inline.
func TestThePageIsWholeAndItsOwn(t *testing.T) {
	all := files(t)
	used := map[string]bool{"/": true}
	for at, text := range all {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			to := m[1] + m[2] + m[3]
			if strings.HasPrefix(to, "./") {
				to = "/console/" + to[2:]
			}
			if used[to] = true; all[to] == "" {
				t.Errorf("%s names %s, which is not there", at, to)
			}
		}
		own := strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "") // a name, which nobody fetches
		if found := foreign.FindString(own); found != "" {
			t.Errorf("%s names another host: %s", at, found)
		}
		if found := inline.FindString(text); found != "" {
			t.Errorf("%s has something inline, or makes markup of a text: %q", at, found)
		}
	}
	for at := range all {
		if !used[at] {
			t.Errorf("nothing uses %s", at)
		}
	}
}

// The causes of resets that the page offers are those that there are.
func TestThePageOffersTheCausesThatThereAre(t *testing.T) {
	_, list, _ := strings.Cut(files(t)["/console/confirm.js"], "export const causes = [")
	list, _, _ = strings.Cut(list, "]")
	var offered []string
	for _, m := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(list, -1) {
		offered = append(offered, m[1])
	}
	var want []string
	for _, c := range actor.Causes() {
		want = append(want, c.String())
	}
	slices.Sort(offered)
	slices.Sort(want)
	if !slices.Equal(offered, want) {
		t.Errorf("the page offers %q, and there are %q", offered, want)
	}
}
