package qlogs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"

	"sluice/internal/bounds"
	"sluice/internal/logs"
	"sluice/transport"
)

const (
	// suffix is the recommended one for text sequences. Files with another are not touched.
	suffix = ".sqlog"
	// maxFiles bounds the time that it takes to look through the directory.
	maxFiles = 1000
	// maxWaiting is how many bytes of a connection wait to be written before its qlog ends.
	maxWaiting = 256 << 10
	// minPart is the least size of a file before another begins: it takes what has waited.
	minPart = 2 * maxWaiting
)

// Config is the configuration of a Directory. Path is required.
type Config struct {
	Path  string
	Match Match
	// Size is how many bytes all files may take. Half of it is for files that are written, in equal parts, so that
	// there is always a file that can go. Default: 256 MiB.
	Size int64
	// Sessions is how many connections have a qlog at a time. Default: 16.
	Sessions int
	Logger   *slog.Logger // default: slog.Default()
}

// Match chooses the connections that get a qlog: a share of those from some networks, and with some paths, or paths
// below them. The zero value chooses all.
type Match struct {
	Networks []netip.Prefix // none: all
	Paths    []string       // of the URLs that clients have dialed; none: all
	Share    float64        // more than 0, at most 1; 0: all
}

// share reports whether a connection is in the share. A hash of its id says so, so that of two relays with the same
// share either both or neither have the qlog of a connection between them.
func (m *Match) share(id quic.ConnectionID) bool {
	if m.Share == 0 {
		return true
	}
	hash := sha256.Sum256(id.Bytes())
	return float64(binary.BigEndian.Uint32(hash[:])) < m.Share*(1<<32)
}

func (m *Match) network(remote netip.Addr) bool {
	return len(m.Networks) == 0 ||
		slices.ContainsFunc(m.Networks, func(p netip.Prefix) bool { return p.Contains(remote) })
}

func (m *Match) path(path string) bool {
	return slices.ContainsFunc(m.Paths, func(p string) bool {
		return path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/")
	})
}

// Directory writes qlogs.
type Directory struct {
	cfg     Config
	match   atomic.Pointer[Match]
	log     *logs.Sparse
	newFile func(name string) (file, error)

	disk sync.Mutex        // held while this process changes the directory, which may take long
	mu   sync.Mutex        // guards what follows; new connections wait for it
	open map[*trace]string // name of the file that is written, or ""
}

// Open makes the directory, for the user of this process alone, unless it is there, and checks that it can be written.
func Open(cfg Config) (*Directory, error) {
	cfg.Size, cfg.Sessions = cmp.Or(cfg.Size, 256<<20), cmp.Or(cfg.Sessions, 16)
	if err := cmp.Or(bounds.AtLeast("Sessions", cfg.Sessions, 1),
		bounds.AtLeast("Size", cfg.Size, 2*minPart*int64(cfg.Sessions))); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Path, 0o700); err != nil {
		return nil, err
	}
	probe, err := os.CreateTemp(cfg.Path, ".probe-*")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, err
	}
	d := &Directory{cfg: cfg, newFile: newFile, open: make(map[*trace]string)}
	d.log = logs.NewSparse(cmp.Or(cfg.Logger, slog.Default()))
	d.SetMatch(cfg.Match)
	return d, nil
}

// SetMatch replaces Config.Match, for new connections.
func (d *Directory) SetMatch(m Match) { d.match.Store(&m) }

// Trace begins the qlog of a connection, or returns nil. It is for [transport.Inspection].
func (d *Directory) Trace(ctx context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
	match := d.match.Load()
	if !match.share(id) || !match.network(transport.RemoteOf(ctx)) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.open) >= d.cfg.Sessions {
		return nil
	}
	t := newTrace(d, isClient, id)
	if len(match.Paths) > 0 {
		t.wants = match.path
	}
	d.open[t] = ""
	go t.run()
	return t
}

// partSize is how large a file gets before another begins.
func (d *Directory) partSize() int64 { return d.cfg.Size / 2 / int64(d.cfg.Sessions) }

// file is an os.File.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
}

func newFile(name string) (file, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// create makes the next file of a connection. Names are in the order of their time.
func (d *Directory) create(t *trace) (file, error) {
	d.disk.Lock()
	defer d.disk.Unlock()
	if err := d.makeRoom(); err != nil {
		return nil, err
	}
	name := time.Now().UTC().Format("20060102-150405.000000") + "_" + t.name + suffix
	f, err := d.newFile(filepath.Join(d.cfg.Path, name))
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open[t] = name
	}
	return f, err
}

// remove removes the file of a connection that is written.
func (d *Directory) remove(t *trace) error {
	d.disk.Lock()
	defer d.disk.Unlock()
	d.mu.Lock()
	name := d.open[t]
	d.mu.Unlock()
	return os.Remove(filepath.Join(d.cfg.Path, name))
}

// makeRoom removes the oldest files that nobody writes until half of the directory is free. Files of another process,
// which this one has replaced and which still writes, may go, too.
func (d *Directory) makeRoom() error {
	entries, err := os.ReadDir(d.cfg.Path) // sorted
	if err != nil {
		return err
	}
	var total int64
	sizes := make(map[string]int64)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasSuffix(e.Name(), suffix) {
			sizes[e.Name()] = info.Size()
			total += info.Size()
		}
	}
	d.mu.Lock()
	written := slices.Collect(maps.Values(d.open))
	d.mu.Unlock()
	for _, e := range entries {
		size, ours := sizes[e.Name()]
		if total <= d.cfg.Size/2 && len(sizes) < maxFiles {
			return nil
		}
		if !ours || slices.Contains(written, e.Name()) {
			continue
		}
		err := os.Remove(filepath.Join(d.cfg.Path, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may have been faster
			return err
		}
		delete(sizes, e.Name())
		total -= size
	}
	return nil
}

// ended forgets a connection whose qlog has ended, and says why if it should not have.
func (d *Directory) ended(t *trace, err error) {
	d.mu.Lock()
	delete(d.open, t)
	d.mu.Unlock()
	if err != nil {
		d.log.Log(slog.LevelWarn, "qlog", "the qlog of a connection ends early", "connection", t.name, "err", err)
	}
}

var errSlow = fmt.Errorf("more than %d KiB wait to be written", maxWaiting>>10)
