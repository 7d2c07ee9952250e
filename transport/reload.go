package transport

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"sluice/internal/files"
)

// checkInterval is how often files are checked for changes at most.
const checkInterval = time.Second

// reloaded is the content of files. They are read again when one of them has changed; until that works, the content
// from before stays in use.
type reloaded[T any] struct {
	files        []string
	read         func() (T, error)
	log          *slog.Logger
	failed, done string // messages
	now          func() time.Time

	mu      sync.Mutex // guards all below
	checked time.Time
	seen    []os.FileInfo // of files
	current T
}

// certFiles is a certificate and its key in PEM files.
func certFiles(cert, key string, log *slog.Logger) (*reloaded[*tls.Certificate], error) {
	f := &reloaded[*tls.Certificate]{
		files: []string{cert, key}, log: log, now: time.Now, done: "reloaded the TLS certificate",
		failed: "cannot reload the TLS certificate; the old one stays in use",
		read: func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
			}
			return &pair, nil
		},
	}
	return f, f.begin()
}

// authorityFile is a PEM file with authorities.
func authorityFile(name string, log *slog.Logger) (*reloaded[*x509.CertPool], error) {
	f := &reloaded[*x509.CertPool]{
		files: []string{name}, log: log, now: time.Now, done: "read the authority again",
		failed: "cannot read the authority again; the old one stays in use",
		read:   func() (*x509.CertPool, error) { return ReadAuthorities(name) },
	}
	return f, f.begin()
}

// begin reads the files for the first time.
func (f *reloaded[T]) begin() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = make([]os.FileInfo, len(f.files))
	if _, err := f.changedLocked(); err != nil { // before the files are read, so that no change is missed
		return err
	}
	f.current, err = f.read()
	return err
}

func (f *reloaded[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.checked) >= checkInterval {
		f.checked = now
		if changed, err := f.changedLocked(); changed {
			f.reloadLocked(err)
		}
	}
	return f.current
}

// reloadLocked reads the files again, unless that is known to fail.
func (f *reloaded[T]) reloadLocked(err error) {
	var next T
	if err == nil {
		next, err = f.read()
	}
	if err != nil {
		f.log.Error(f.failed, "err", err)
		return
	}
	f.current = next
	f.log.Info(f.done, "file", f.files[0])
}

// changedLocked reports whether the files have changed since the last call.
func (f *reloaded[T]) changedLocked() (changed bool, err error) {
	for i, name := range f.files {
		info, statErr := os.Stat(name)
		if statErr != nil {
			info, err = nil, statErr
		}
		changed = changed || !files.Same(f.seen[i], info)
		f.seen[i] = info
	}
	return changed, err
}
