package auth

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/files"
	"sluice/moqt"
	"sluice/relay"
)

// Limits of token files.
const (
	maxTokenFile       = 16 << 20
	tokenCheckInterval = 250 * time.Millisecond // the file is looked at no more often
)

// TokenFile is a scheme with static tokens from a file, which is read again when it has changed. The file has a
// line for each token, with the actions that it allows and the namespace prefixes for which it allows them; see
// docs/auth.md.
type TokenFile struct {
	name string
	log  *slog.Logger

	mu       sync.Mutex
	checked  time.Time
	seen     os.FileInfo // when it was read
	looked   os.FileInfo // at the last look
	table    *tokenTable
	reloaded bool // since Changed was called
}

// tokenTable has the lines of a token file.
type tokenTable struct {
	anybody []*tokenEntry                       // for all requests, with and without tokens
	of      map[[sha256.Size]byte][]*tokenEntry // by the digest of their token
	secret  bool                                // a line has the token itself, and not its digest
}

// tokenEntry is what one line of the file allows.
type tokenEntry struct {
	subject  string // the digest of the token; empty if the line is for everybody
	words    []string
	prefixes []moqt.Namespace
	expires  time.Time
}

// OpenTokenFile reads a token file.
func OpenTokenFile(name string, log *slog.Logger) (*TokenFile, error) {
	f := &TokenFile{name: name, log: log}
	return f, f.read()
}

// Authorize implements Authorizer.
func (f *TokenFile) Authorize(_ context.Context, r relay.AuthRequest) (relay.Grant, error) {
	expired := false
	var best *tokenEntry
	for _, e := range f.current().matching(r.Tokens) {
		switch {
		case !e.allows(&r):
		case !e.expires.IsZero() && !time.Now().Before(e.expires):
			expired = true
		case best == nil || Outlasts(e.expires, best.expires):
			best = e
		}
	}
	switch {
	case best != nil:
		return relay.Grant{Expires: best.expires, Subject: best.subject}, nil
	case expired:
		return relay.Grant{}, Refuse(moqt.RequestExpiredAuthToken, "the authorization token has expired")
	case len(r.Tokens) == 0:
		return relay.Grant{}, Refuse(moqt.RequestUnauthorized, "an authorization token is required")
	}
	return relay.Grant{}, Refuse(moqt.RequestUnauthorized, "no authorization token allows this")
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

// current returns the lines of the file as it is now, or the last ones if it cannot be read.
func (f *TokenFile) current() *tokenTable {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) < tokenCheckInterval {
		return f.table
	}
	info, err := os.Stat(f.name)
	if err == nil {
		same, before := files.Same(f.seen, info), f.looked
		f.checked, f.looked = time.Now(), info
		if same || !files.Same(before, info) { // a file that has just changed may not be complete
			return f.table
		}
	}
	if err = f.read(); err != nil {
		if f.seen != nil {
			f.log.Error("cannot reload the authorization tokens; the old ones stay in force", "err", err)
		}
		f.seen = nil
		return f.table
	}
	f.log.Info("reloaded the authorization tokens", "file", f.name, "tokens", f.table.len())
	f.reloaded = true
	return f.table
}

// read reads the file. It reports a file that other users of the machine can read or change.
func (f *TokenFile) read() error {
	f.checked = time.Now()
	text, info, err := files.Read(f.name, maxTokenFile)
	if err != nil {
		return err
	}
	table, err := parseTokens(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.table, f.seen = table, info
	switch mode := info.Mode().Perm(); {
	case mode&0o002 != 0:
		f.warn("every user of this machine can change the authorization tokens; run chmod o= on the file", mode)
	case mode&0o004 != 0 && table.secret:
		f.warn("every user of this machine can read the authorization tokens; run chmod o= on the file, or write "+
			"sha256: digests instead of tokens", mode)
	}
	return nil
}

func (f *TokenFile) warn(what string, mode os.FileMode) {
	f.log.Warn(what, "file", f.name, "mode", fmt.Sprintf("%#o", mode))
}

// matching returns the lines that are for one of the tokens. It hashes each token once. The time of the lookup may tell
// how much of a digest is right, but not how much of a token, as a comparison of the tokens themselves could.
func (t *tokenTable) matching(tokens []moqt.Token) []*tokenEntry {
	lines := slices.Clip(t.anybody)
	for _, token := range tokens {
		lines = append(lines, t.of[sha256.Sum256(token.Value)]...)
	}
	return lines
}

// len returns the number of lines.
func (t *tokenTable) len() int {
	n := len(t.anybody)
	for _, lines := range t.of {
		n += len(lines)
	}
	return n
}

func (e *tokenEntry) allows(r *relay.AuthRequest) bool {
	return (slices.Contains(e.words, All) || slices.Contains(e.words, Word(r.Action))) &&
		slices.ContainsFunc(e.prefixes, r.Namespace.HasPrefix)
}

// Outlasts reports whether one expiry is later than another. The zero time is never.
func Outlasts(a, b time.Time) bool { return !b.IsZero() && (a.IsZero() || a.After(b)) }

func parseTokens(r io.Reader) (*tokenTable, error) {
	t := &tokenTable{of: make(map[[sha256.Size]byte][]*tokenEntry)}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if err := t.add(fields); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return t, lines.Err()
}

var errTokenFields = errors.New("want a token, actions, namespace prefixes, and perhaps expires=TIME")

// add adds a line.
func (t *tokenTable) add(fields []string) error {
	if len(fields) < 3 || len(fields) > 4 {
		return errTokenFields
	}
	digest, hashed, err := parseDigest(fields[0])
	if err != nil {
		return err
	}
	e, err := parseEntry(fields[1:])
	switch {
	case err != nil:
		return err
	case fields[0] == "*":
		t.anybody = append(t.anybody, &e)
		return nil
	}
	e.subject = "sha256:" + hex.EncodeToString(digest[:])
	t.of[digest] = append(t.of[digest], &e)
	t.secret = t.secret || !hashed
	return nil
}

// parseEntry parses what follows the token in a line.
func parseEntry(fields []string) (e tokenEntry, err error) {
	e.words = strings.Split(fields[0], ",")
	for _, word := range e.words {
		if !slices.Contains([]string{Publish, Subscribe, Discover, All}, word) {
			return e, fmt.Errorf("action %q is none of publish, subscribe, discover, all", word)
		}
	}
	for text := range strings.SplitSeq(fields[1], ",") {
		prefix, err := ParsePrefix(text)
		if err != nil {
			return e, err
		}
		e.prefixes = append(e.prefixes, prefix)
	}
	if len(fields) == 3 {
		e.expires, err = parseExpires(fields[2])
	}
	return e, err
}

// parseDigest returns the digest of a token. The file holds the token itself or, to keep it secret, its digest.
func parseDigest(s string) (d [sha256.Size]byte, hashed bool, err error) {
	digits, hashed := strings.CutPrefix(s, "sha256:")
	if !hashed {
		return sha256.Sum256([]byte(s)), false, nil
	}
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(d) {
		return d, true, errors.New("sha256: wants 64 hexadecimal digits")
	}
	return [sha256.Size]byte(b), true, nil
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
