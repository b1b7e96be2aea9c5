package front

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/kalpahost/kalpa/mcp/wire"
)

const (
	typeJSON   = "application/json"
	typeStream = "text/event-stream"
)

// checkContentType refuses a body that is not plain JSON.
func checkContentType(r *http.Request) *Refusal {
	t, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || t != typeJSON {
		return refuse(http.StatusUnsupportedMediaType, "", wire.InvalidRequest,
			"The Content-Type is %.100q. Send a JSON-RPC message with Content-Type: application/json.", r.Header.Get("Content-Type"))
	}
	if c := params["charset"]; c != "" && !strings.EqualFold(c, "utf-8") {
		return refuse(http.StatusUnsupportedMediaType, "", wire.InvalidRequest, "The charset is %.100q. Send UTF-8.", c)
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return refuse(http.StatusUnsupportedMediaType, "", wire.InvalidRequest,
			"The Content-Encoding is %.100q. Send the body as it is.", e)
	}
	return nil
}

// checkAccept refuses a client that does not take one of the types which the
// answer may have.
func checkAccept(r *http.Request, types ...string) *Refusal {
	accept := r.Header.Values("Accept")
	for _, t := range types {
		if !accepts(accept, t) {
			return refuse(http.StatusNotAcceptable, "", wire.InvalidRequest,
				"The answer may be %s, but the request's Accept header, %.100q, leaves out %s. Send Accept: %s.",
				strings.Join(types, " or "), strings.Join(accept, ", "), t, strings.Join(types, ", "))
		}
	}
	return nil
}

// accepts tells whether the values of an Accept header allow a media type. No
// value allows everything. The most specific range that matches decides.
func accepts(values []string, mediaType string) bool {
	if len(values) == 0 {
		return true
	}
	major, _, _ := strings.Cut(mediaType, "/")
	best, ok := 0, false
	for _, v := range values {
		for item := range strings.SplitSeq(v, ",") {
			name, params, _ := strings.Cut(item, ";")
			rank := 0
			switch strings.ToLower(strings.TrimSpace(name)) {
			case mediaType:
				rank = 3
			case major + "/*":
				rank = 2
			case "*/*":
				rank = 1
			}
			if rank > best {
				best, ok = rank, !isZeroQuality(params)
			}
		}
	}
	return ok
}

// isZeroQuality finds q=0 in the parameters of a media range: "not this one".
func isZeroQuality(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q == 0
		}
	}
	return false
}
