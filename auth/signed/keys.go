package signed

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"sluice/internal/files"
	"sluice/internal/logs"
	"sluice/internal/webclient"
)

// When keys are read again.
const (
	// fileInterval is how often a file is looked at.
	fileInterval = 250 * time.Millisecond
	// urlInterval is how often a URL is read. Issuers publish a new key long before they use it.
	urlInterval = 5 * time.Minute
	// urlRetry is the shortest time between two attempts to read a URL: after a failure, and if a token names an
	// unknown key. Anybody can send such a token.
	urlRetry = 30 * time.Second
	// keyTimeout bounds an attempt. A peer may wait for it.
	keyTimeout = 5 * time.Second
	// firstRetry is the shortest time after the first attempt, if there are no keys yet. It doubles up to urlRetry.
	firstRetry = time.Second
)

// Keys are the keys of issuers, from a file or a URL. Its methods may be called on any goroutine.
type Keys struct {
	name    string
	client  *webclient.Client // nil: a file
	log     *slog.Logger
	failure logs.Line
	flights singleflight.Group

	mu       sync.Mutex
	set      []jose.JSONWebKey
	version  uint64 // of set
	reported uint64 // the version that Changed has reported
	tried    time.Time
	gap      time.Duration // the least time between two attempts
	read     time.Time     // the last success
	file     os.FileInfo   // of the set
}

// OpenKeys reads the keys from a file or an http or https URL.
func OpenKeys(source string, log *slog.Logger) (*Keys, error) {
	k, err := newKeys(source, log)
	if err == nil {
		err = k.load()
	}
	if err != nil {
		return nil, err
	}
	k.reported = k.version
	return k, nil
}

// AwaitKeys is OpenKeys, but a URL need not answer yet: then there are no keys until it does. Changed and Find ask it
// again.
func AwaitKeys(source string, log *slog.Logger) (*Keys, error) {
	if !webclient.IsURL(source) {
		return OpenKeys(source, log)
	}
	k, err := newKeys(source, log)
	if err != nil {
		return nil, err
	}
	_, _ = k.reload()
	k.reported = k.version
	return k, nil
}

func newKeys(source string, log *slog.Logger) (*Keys, error) {
	k := &Keys{name: source, log: log, gap: fileInterval}
	if webclient.IsURL(source) {
		var err error
		k.gap = 0
		k.client, err = webclient.New(webclient.Config{URL: source, Timeout: keyTimeout, MaxBody: maxKeySet})
		if err != nil {
			return nil, err
		}
		k.name = k.client.Name()
		if k.client.Plaintext() {
			log.Warn("the keys of tokens are read without encryption, so that others can replace them; use https",
				"url", k.name)
		}
	}
	return k, nil
}

// Known reports whether there are keys.
func (k *Keys) Known() bool { return k.Version() > 0 }

// Version changes when the keys change. It is 0 if there are none yet.
func (k *Keys) Version() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.version
}

// Find returns the keys with an id, or all if the id is "", and the version of the set. If there is none, the keys of a
// URL are read again, if that was not done lately.
func (k *Keys) Find(ctx context.Context, id string) ([]jose.JSONWebKey, uint64) {
	found, version := k.find(id)
	if len(found) > 0 || k.client == nil || !k.isDue() {
		return found, version
	}
	select {
	case <-k.flights.DoChan("", k.reload):
	case <-ctx.Done():
	}
	return k.find(id)
}

func (k *Keys) find(id string) (found []jose.JSONWebKey, version uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if id == "" {
		return slices.Clone(k.set), k.version
	}
	for _, key := range k.set {
		if key.KeyID == id || key.KeyID == "" {
			found = append(found, key)
		}
	}
	return found, k.version
}

// Changed reports whether the keys have changed since it was called last. It looks at a file at once, and reads a URL
// on a goroutine of its own.
func (k *Keys) Changed() bool {
	if stale := k.isStale(); stale && k.client == nil {
		_, _ = k.reload()
	} else if stale {
		k.flights.DoChan("", k.reload)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	changed := k.reported != k.version
	k.reported = k.version
	return changed
}

// isDue reports whether the keys may be looked for again.
func (k *Keys) isDue() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.tried) >= k.gap
}

// isStale reports whether the keys have to be read again: of a URL because they are old, of a file because it is not
// the one that was read.
func (k *Keys) isStale() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case time.Since(k.tried) < k.gap:
		return false
	case k.client != nil:
		return time.Since(k.read) >= urlInterval
	}
	info, err := os.Stat(k.name)
	k.tried = time.Now()
	return err != nil || !files.Same(k.file, info)
}

// reload reads the keys again, and logs an error. It has the form that singleflight calls.
func (k *Keys) reload() (any, error) {
	err := k.load()
	if err == nil {
		return nil, nil
	}
	text := "cannot read the keys of authorization tokens again; the old ones stay in force"
	if !k.Known() {
		text = "there are no keys of authorization tokens yet, so all tokens are refused; trying again"
	}
	k.failure.Log(k.log, urlInterval, slog.LevelError, text, "err", err)
	return nil, err
}

// load reads the keys. If that fails, the keys stay as they are.
func (k *Keys) load() error {
	k.mu.Lock()
	k.tried = time.Now()
	if k.client != nil {
		k.gap = min(max(2*k.gap, firstRetry), urlRetry)
	}
	k.mu.Unlock()
	b, info, err := k.fetch()
	if err != nil {
		return fmt.Errorf("keys of authorization tokens: %w", err)
	}
	set, err := parseKeys(b)
	if err != nil {
		return fmt.Errorf("keys of authorization tokens: %s: %w", k.name, err)
	}
	if info != nil && hasSecrets(set) && info.Mode().Perm()&0o007 != 0 {
		k.log.Warn("others can read the file with secret keys; run chmod o-rwx", "file", k.name,
			"mode", info.Mode().Perm())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read, k.file = time.Now(), info
	if k.client != nil {
		k.gap = urlRetry
	}
	if !equalKeys(set, k.set) {
		k.set = set
		k.version++
		k.log.Info("read the keys of authorization tokens", "from", k.name, "keys", len(set))
	}
	return nil
}

// fetch returns the encoded set, and for a file its FileInfo.
func (k *Keys) fetch() ([]byte, os.FileInfo, error) {
	if k.client == nil {
		return files.Read(k.name, maxKeySet)
	}
	b, err := k.client.Get(context.Background())
	if err != nil {
		err = fmt.Errorf("%s: %w", k.name, err)
	}
	return b, nil, err
}
