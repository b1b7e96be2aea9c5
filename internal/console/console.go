package console

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed page
var files embed.FS

// kinds are the types of the files that there are.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy: what is on the page comes from this listener, no script is inline, and
// nobody frames it or makes markup of a text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

type file struct {
	kind, tag string
	data      []byte
}

// Handler serves the page at /, and what it is made of below /console/. It answers GET
// and HEAD, and anybody: it has no data of the host.
func Handler() http.Handler {
	all := map[string]file{}
	err := fs.WalkDir(files, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		sum := sha256.Sum256(data)
		at := "/console/" + strings.TrimPrefix(name, "page/")
		if path.Base(name) == "index.html" {
			at = "/"
		}
		all[at] = file{kinds[path.Ext(name)], `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, data}
		return err
	})
	if err != nil {
		panic(err) // the files are in the program
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		f, ok := all[r.URL.Path]
		if !ok {
			if p := r.URL.Path; p == "/console" || p == "/console/" {
				h.Set("Location", "/")
				w.WriteHeader(http.StatusFound)
				return
			}
			http.Error(w, "The console has no such file; it is at /.", http.StatusNotFound)
			return
		}
		h.Set("Content-Type", f.kind)
		h.Set("Cache-Control", "no-cache") // another version of the program has other files
		h.Set("ETag", f.tag)
		if strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Length", strconv.Itoa(len(f.data)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(f.data) // the browser may have gone
		}
	})
}
