package relay

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"sluice/moqt"
)

// Limits of token files.
const (
	maxTokenFile       = 16 << 20
	tokenCheckInterval = time.Second // the file is looked at no more often
)

// TokenFile is an Authorizer with static tokens from a file, which is read again when it has changed. The file has a
// line for each token, with the actions that it allows and the namespace prefixes for which it allows them; see
// docs/auth.md.
type TokenFile struct {
	name string
	log  *slog.Logger

	mu       sync.Mutex
	checked  time.Time
	seen     os.FileInfo
	entries  []tokenEntry
	reloaded bool // since Changed was called
}

// tokenEntry is one line of the file.
type tokenEntry struct {
	digest   [sha256.Size]byte // of the token: comparing digests takes the same time for all tokens
	anybody  bool              // the line is for all requests, with and without tokens
	actions  map[Action]bool
	prefixes []moqt.Namespace
	expires  time.Time
}

// OpenTokenFile reads a token file.
func OpenTokenFile(name string, log *slog.Logger) (*TokenFile, error) {
	f := &TokenFile{name: name, log: log}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	f.seen, f.checked = info, time.Now()
	f.entries, err = readTokenFile(name)
	return f, err
}

// Authorize implements Authorizer.
func (f *TokenFile) Authorize(_ context.Context, r AuthRequest) (Grant, error) {
	expired := false
	var best *tokenEntry
	for _, e := range f.current() {
		switch {
		case !e.matches(r.Tokens) || !e.allows(&r):
		case !e.expires.IsZero() && !time.Now().Before(e.expires):
			expired = true
		case best == nil || e.outlasts(best):
			best = &e
		}
	}
	switch {
	case best != nil:
		return Grant{Expires: best.expires}, nil
	case expired:
		return refuse(moqt.RequestExpiredAuthToken, "the authorization token has expired")
	case len(r.Tokens) == 0:
		return refuse(moqt.RequestUnauthorized, "an authorization token is required")
	}
	return refuse(moqt.RequestUnauthorized, "no authorization token allows this")
}

func refuse(code moqt.RequestErrorCode, reason string) (Grant, error) {
	return Grant{}, &moqt.RequestError{Code: code, Reason: reason}
}

// Changed implements Reviewer.
func (f *TokenFile) Changed() bool {
	f.current()
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := f.reloaded
	f.reloaded = false
	return changed
}

// current returns the entries of the file as it is now, or the last ones if it cannot be read.
func (f *TokenFile) current() []tokenEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) < tokenCheckInterval {
		return f.entries
	}
	f.checked = time.Now()
	info, err := os.Stat(f.name)
	if err == nil && sameFile(f.seen, info) {
		return f.entries
	}
	var entries []tokenEntry
	if err == nil {
		entries, err = readTokenFile(f.name)
	}
	if err != nil {
		if f.seen != nil {
			f.log.Error("cannot reload the authorization tokens; the old ones stay in force", "err", err)
		}
		f.seen = nil
		return f.entries
	}
	f.log.Info("reloaded the authorization tokens", "file", f.name, "tokens", len(entries))
	f.seen, f.entries, f.reloaded = info, entries, true
	return f.entries
}

func sameFile(a, b os.FileInfo) bool {
	return a != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// matches reports whether the entry is for one of the tokens. It takes the same time whichever that is.
func (e *tokenEntry) matches(tokens []moqt.Token) bool {
	found := 0
	for _, t := range tokens {
		digest := sha256.Sum256(t.Value)
		found |= subtle.ConstantTimeCompare(digest[:], e.digest[:])
	}
	return e.anybody || found == 1
}

func (e *tokenEntry) allows(r *AuthRequest) bool {
	if !e.actions[r.Action] {
		return false
	}
	for _, prefix := range e.prefixes {
		if r.Namespace.HasPrefix(prefix) {
			return true
		}
	}
	return false
}

func (e *tokenEntry) outlasts(o *tokenEntry) bool {
	return !o.expires.IsZero() && (e.expires.IsZero() || e.expires.After(o.expires))
}

func readTokenFile(name string) ([]tokenEntry, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := parseTokens(io.LimitReader(f, maxTokenFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return entries, nil
}

func parseTokens(r io.Reader) (entries []tokenEntry, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		e, err := parseToken(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		entries = append(entries, e)
	}
	return entries, lines.Err()
}

var errTokenFields = errors.New("want a token, actions, namespace prefixes, and perhaps expires=TIME")

func parseToken(fields []string) (e tokenEntry, err error) {
	if len(fields) < 3 || len(fields) > 4 {
		return e, errTokenFields
	}
	if e.anybody = fields[0] == "*"; !e.anybody {
		e.digest, err = parseDigest(fields[0])
	}
	if err == nil {
		e.actions, err = parseActions(fields[1])
	}
	if err == nil {
		e.prefixes, err = parsePrefixes(fields[2])
	}
	if err == nil && len(fields) == 4 {
		e.expires, err = parseExpires(fields[3])
	}
	return e, err
}

// parseDigest returns the digest of a token. The file holds the token itself or, to keep it secret, its digest.
func parseDigest(s string) (d [sha256.Size]byte, err error) {
	digits, hashed := strings.CutPrefix(s, "sha256:")
	if !hashed {
		return sha256.Sum256([]byte(s)), nil
	}
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(d) {
		return d, errors.New("sha256: wants 64 hexadecimal digits")
	}
	return [sha256.Size]byte(b), nil
}

// actionNames are the words of token files.
var actionNames = map[string][]Action{
	"publish":   {ActionPublish, ActionPublishNamespace},
	"subscribe": {ActionSubscribe, ActionFetch, ActionTrackStatus},
	"discover":  {ActionSubscribeNamespace, ActionSubscribeTracks},
}

func parseActions(s string) (map[Action]bool, error) {
	actions := make(map[Action]bool)
	for word := range strings.SplitSeq(s, ",") {
		listed, ok := actionNames[word]
		if word == "all" {
			ok = true
			for _, as := range actionNames {
				listed = append(listed, as...)
			}
		}
		if !ok {
			return nil, fmt.Errorf("action %q is none of publish, subscribe, discover, all", word)
		}
		for _, a := range listed {
			actions[a] = true
		}
	}
	return actions, nil
}

// parsePrefixes parses namespaces as on the command line: "a/b", with %xx for other bytes; "*" is the prefix of all.
func parsePrefixes(s string) (prefixes []moqt.Namespace, err error) {
	for text := range strings.SplitSeq(s, ",") {
		ns, err := parsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("namespace prefix %q: %w", text, err)
		}
		prefixes = append(prefixes, ns)
	}
	return prefixes, nil
}

func parsePrefix(s string) (ns moqt.Namespace, err error) {
	if s == "*" {
		return ns, nil
	}
	for field := range strings.SplitSeq(strings.Trim(s, "/"), "/") {
		field, err := url.PathUnescape(field)
		if err != nil {
			return nil, err
		}
		ns = append(ns, field)
	}
	return ns, ns.Validate()
}

func parseExpires(s string) (time.Time, error) {
	text, ok := strings.CutPrefix(s, "expires=")
	if !ok {
		return time.Time{}, errTokenFields
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("expires: write the time as 2006-01-02T15:04:05Z: %w", err)
	}
	return t, nil
}
