package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"sluice/clock"
)

const (
	interval     = time.Second      // between two snapshots
	writeTimeout = 10 * time.Second // for a watcher to take one
	maxWatchers  = 16
)

// Stream serves snapshots as server-sent events, to whom a [Guard] lets in. The zero value is not usable: see
// [NewStream].
type Stream struct {
	source Source

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	stop     context.CancelFunc // ends the goroutine that takes snapshots, which is there while there are watchers
	closed   bool
}

// watcher is a client that looks.
type watcher struct {
	track  uint64      // whose subscribers it wants to see; 0: none
	events chan []byte // has room for one: a watcher that is slow misses snapshots
}

// NewStream returns a stream of a source's snapshots.
func NewStream(s Source) *Stream { return &Stream{source: s, watchers: make(map[*watcher]struct{})} }

// ServeHTTP serves snapshots until the client leaves.
func (s *Stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	track, err := trackOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	watcher := s.enter(track)
	if watcher == nil {
		http.Error(w, fmt.Sprintf("%d pages show the relay already; close one", maxWatchers),
			http.StatusServiceUnavailable)
		return
	}
	defer s.leave(watcher)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{}) // otherwise the server's deadline for requests ends this one
	for {
		select {
		case <-r.Context().Done():
			return
		case events, open := <-watcher.events:
			if !open || send(w, c, events) != nil {
				return
			}
		}
	}
}

// trackOf returns the id of the track that a request names, or 0.
func trackOf(r *http.Request) (uint64, error) {
	text := r.URL.Query().Get("track")
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("track: %q: must be the id of a track in a snapshot", text)
	}
	return id, nil
}

func send(w http.ResponseWriter, c *http.ResponseController, events []byte) error {
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := w.Write(events); err != nil {
		return err
	}
	return c.Flush()
}

// enter adds a watcher, unless there are too many, and has snapshots taken for the first one.
func (s *Stream) enter(track uint64) *watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.watchers) >= maxWatchers {
		return nil
	}
	w := &watcher{track: track, events: make(chan []byte, 1)}
	s.watchers[w] = struct{}{}
	if s.stop == nil {
		var ctx context.Context
		ctx, s.stop = context.WithCancel(context.Background())
		go s.run(ctx)
	}
	return w
}

func (s *Stream) leave(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
	if len(s.watchers) == 0 && s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// Close ends all requests that are being served. No more are served.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for w := range s.watchers {
		close(w.events)
	}
}

// run takes snapshots until ctx is done.
func (s *Stream) run(ctx context.Context) {
	s.publish()
	for range clock.Every(interval, ctx.Done()) {
		s.publish()
	}
}

// publish takes a snapshot, and gives it to all watchers that can take it.
func (s *Stream) publish() {
	snapshot, err := s.source.Snapshot()
	if err != nil {
		return // the relay is ending
	}
	common, details := event("snapshot", snapshot), s.details()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for w := range s.watchers {
		detail := details[w.track] // nil if it has entered since
		select {
		case w.events <- bytes.Join([][]byte{common, detail}, nil):
		default:
		}
	}
}

// details returns the events about the tracks that are asked for.
func (s *Stream) details() map[uint64][]byte {
	of := make(map[uint64][]byte)
	s.mu.Lock()
	for w := range s.watchers {
		if w.track != 0 {
			of[w.track] = nil
		}
	}
	s.mu.Unlock()
	for track := range of {
		of[track] = event("track", s.source.Detail(track))
	}
	return of
}

// event is a server-sent event with JSON.
func event(name string, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // plain structs
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text)
}
