package inside

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/relay"
)

// counted is a source that counts how often it is asked.
type counted struct{ snapshots, details atomic.Int32 }

func (c *counted) Snapshot() (Snapshot, error) {
	return Snapshot{Sessions: int(c.snapshots.Add(1))}, nil
}

func (c *counted) Detail(track uint64) Detail {
	c.details.Add(1)
	return Detail{ID: track}
}

// watching is a request for events that is being served.
type watching struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
	done  sync.WaitGroup
}

func watch(t *testing.T, s *Stream, query string) *watching {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{ResponseRecorder: httptest.NewRecorder(), leave: cancel}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/inside/events"+query, nil)
	w.done.Go(func() { s.ServeHTTP(w.ResponseRecorder, r) })
	return w
}

// events returns the served events, without their data.
func (w *watching) events() string {
	w.leave()
	w.done.Wait()
	var names []string
	for line := range strings.Lines(w.Body.String()) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return strings.Join(names, " ")
}

// TestStream looks: snapshots are taken once for all watchers, and not while there are none.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := new(counted)
		s := NewStream(source)
		time.Sleep(time.Minute)
		require.Zero(t, source.snapshots.Load())

		one := watch(t, s, "")
		synctest.Wait()
		two := watch(t, s, "?track=7")
		time.Sleep(2*interval + interval/2)
		require.EqualValues(t, 3, source.snapshots.Load())
		three := watch(t, s, "?track=7")
		time.Sleep(interval)
		require.EqualValues(t, 4, source.snapshots.Load())
		require.Equal(t, "snapshot snapshot snapshot snapshot", one.events())
		require.Equal(t, "snapshot track snapshot track snapshot track", two.events())
		require.Equal(t, "snapshot track", three.events())
		require.LessOrEqual(t, source.details.Load(), source.snapshots.Load(), "one for both")
		require.Equal(t, "text/event-stream", one.Header().Get("Content-Type"))

		synctest.Wait()
		taken := source.snapshots.Load()
		time.Sleep(time.Minute)
		require.Equal(t, taken, source.snapshots.Load(), "nobody looks")
	})
}

// TestEvents reads a watcher's events.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, NewStream(new(counted)), "?track=9")
		time.Sleep(interval + interval/2)
		w.events()
		blocks := strings.Split(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n")
		var last Snapshot
		var track Detail
		for _, block := range blocks {
			name, data, ok := strings.Cut(block, "\ndata: ")
			require.True(t, ok, block)
			switch name {
			case "event: snapshot":
				require.NoError(t, json.Unmarshal([]byte(data), &last))
			case "event: track":
				require.NoError(t, json.Unmarshal([]byte(data), &track))
			default:
				require.Fail(t, block)
			}
		}
		require.Equal(t, 2, last.Sessions)
		require.EqualValues(t, 9, track.ID)
	})
}

// TestWatchersAreLimited opens one page too many.
func TestWatchersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStream(new(counted))
		var all []*watching
		for range maxWatchers {
			all = append(all, watch(t, s, ""))
		}
		synctest.Wait()
		more := watch(t, s, "")
		more.done.Wait()
		require.Equal(t, http.StatusServiceUnavailable, more.Code)
		require.Contains(t, more.Body.String(), "close one")
		all[0].events()
		again := watch(t, s, "")
		time.Sleep(interval + interval/2)
		require.Contains(t, again.events(), "snapshot")
		s.Close()
		s.Close()
		for _, w := range all {
			w.done.Wait()
		}
		late := watch(t, s, "")
		late.done.Wait()
		require.Equal(t, http.StatusServiceUnavailable, late.Code)
	})
}

// TestBadTrack asks for tracks that cannot exist.
func TestBadTrack(t *testing.T) {
	for _, query := range []string{"?track=x", "?track=-1", "?track=99999999999999999999"} {
		w := httptest.NewRecorder()
		NewStream(new(counted)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/inside/events"+query, nil))
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, w.Body.String(), "must be the id of a track")
	}
}

// stuck is a client that takes nothing.
type stuck struct {
	http.ResponseWriter
	write chan struct{}
}

func (s stuck) Write(p []byte) (int, error) {
	<-s.write
	return len(p), nil
}

func (s stuck) Flush() {}

// TestSlowWatcher checks that a watcher that takes nothing holds up nobody, and that not much waits for it.
func TestSlowWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := new(counted)
		s := NewStream(source)
		ctx, cancel := context.WithCancel(t.Context())
		quick := watch(t, s, "")
		synctest.Wait() // it gets the first snapshot
		slow := stuck{httptest.NewRecorder(), make(chan struct{})}
		var done sync.WaitGroup
		done.Go(func() {
			s.ServeHTTP(slow, httptest.NewRequestWithContext(ctx, http.MethodGet, "/inside/events", nil))
		})
		time.Sleep(10*interval + interval/2)
		require.Equal(t, 11, strings.Count(quick.events(), "snapshot"))
		require.Len(t, s.watchers, 1)
		for w := range s.watchers {
			require.LessOrEqual(t, len(w.events), 1)
		}
		cancel()
		close(slow.write)
		done.Wait()
	})
}

// TestTracksAreLimited has more tracks than a snapshot lists.
func TestTracksAreLimited(t *testing.T) {
	var all []relay.TrackStatus
	for i := range maxTracks + 3 {
		all = append(all, relay.TrackStatus{ID: uint64(i), Subscribers: i, OnFastPath: 1, Bytes: 10})
	}
	list, more := tracksOf(all)
	require.Len(t, list, maxTracks)
	require.EqualValues(t, maxTracks+2, list[0].ID, "the most subscribers first")
	require.Equal(t, Rest{Tracks: 3, Subscribers: 0 + 1 + 2, OnFastPath: 3, Bytes: 30}, more)
}

// TestSubscriberOf has all that a page shows of a subscriber.
func TestSubscriberOf(t *testing.T) {
	got := subscriberOf(&relay.SubscriberStatus{OnFastPath: true, Forward: true, Session: relay.SessionStatus{
		ID: 1, Remote: "192.0.2.1:5", Transport: "quic", SRTT: 2, MinRTT: 3, Window: 4, InFlight: 5, Bytes: 6,
		Packets:  relay.SentPackets{Kernel: 7, Process: 8, Lost: 9, Again: 10},
		Declined: map[string]uint64{"window": 11}, Held: map[string]uint64{"blocked_window": 12},
	}, Rendition: &relay.RenditionStatus{Set: 13, Track: "a--b", Renditions: 14, Switches: 15, Reason: "late"}})
	require.Equal(t, Subscriber{
		Session: 1, Remote: "192.0.2.1:5", Transport: "quic", OnFastPath: true, Forward: true, SRTT: 2, MinRTT: 3,
		Window: 4, InFlight: 5, Sent: Sent{Bytes: 6, Kernel: 7, Process: 8, Lost: 9, Again: 10},
		Declined: map[string]uint64{"window": 11}, Held: map[string]uint64{"blocked_window": 12},
		Rendition: &Rendition{Track: "a--b", Renditions: 14, Switches: 15, Reason: "late"},
	}, got)
}
