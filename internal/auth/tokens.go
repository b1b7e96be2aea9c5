package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// TokenPrefix begins the tokens that NewToken makes, so that those who look for
// leaked secrets can tell what one is.
const TokenPrefix = "kalpa_"

// SubjectPrefix begins the subject of who bears such a token.
const SubjectPrefix = "token:"

// tokenName is who a token is for.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$`)

// NewToken makes a token for somebody, and the line by which a host knows it. The
// token has 260 random bits, so that a plain hash of it can't be turned back.
func NewToken(name string) (token, line string, err error) {
	if !tokenName.MatchString(name) {
		return "", "", fmt.Errorf("%q is no name for a token's bearer: letters, digits and . _ @ + - make one, a letter or digit first, 128 at most", name)
	}
	token = TokenPrefix + rand.Text() + rand.Text()
	return token, name + " " + hashPrefix + hex.EncodeToString(hash(token)), nil
}

const hashPrefix = "sha256:"

func hash(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}

// Tokens are the tokens that a host knows, by their hash.
type Tokens struct{ names map[string]string }

// ParseTokens reads lines of NewToken's. Empty lines, and what follows a #, are for
// people. The error names every line that is wrong, and no hash.
func ParseTokens(data []byte) (*Tokens, error) {
	t := &Tokens{names: map[string]string{}}
	var wrong []string
	n := 0
	for raw := range bytes.Lines(data) {
		n++
		text, _, _ := strings.Cut(string(raw), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		problem := func(text string) { wrong = append(wrong, fmt.Sprintf("line %d: %s", n, text)) }
		if len(words) != 2 {
			problem("a line has a name and a hash, as `kalpa token NAME` prints it")
			continue
		}
		digest, ok := strings.CutPrefix(words[1], hashPrefix)
		sum, err := hex.DecodeString(digest)
		switch {
		case !tokenName.MatchString(words[0]):
			problem(fmt.Sprintf("%.100q is no name for a token's bearer", words[0]))
		case !ok || err != nil || len(sum) != sha256.Size:
			problem("the second word is no sha256: and its 64 hexadecimal digits (a token itself must not stand here)")
		case t.names[string(sum)] != "":
			problem("the same token stands on an earlier line")
		default:
			t.names[string(sum)] = words[0]
		}
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return t, nil
}

// Len is how many there are.
func (t *Tokens) Len() int {
	if t == nil {
		return 0
	}
	return len(t.names)
}

// subject is whose a token is. What is looked up is a hash: how long that takes tells
// nothing of the tokens that there are.
func (t *Tokens) subject(token string) (string, bool) {
	if t == nil {
		return "", false
	}
	name, ok := t.names[string(hash(token))]
	return SubjectPrefix + name, ok
}
