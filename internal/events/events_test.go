package events

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sluice/internal/webclient"
	"sluice/moqt"
	"sluice/relay"
)

var quiet = slog.New(slog.DiscardHandler)

var published = relay.Event{
	Type: relay.EventPublishStart, Time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Session: 7,
	Remote: "192.0.2.7:4711", Transport: "quic", Authority: "relay.example", Path: "/moq",
	Track: &moqt.FullTrackName{Namespace: moqt.Namespace{"live", "a b"}, Name: "video"},
}

// value returns the sum of a metric, of one label if there is one.
func value(t *testing.T, s *Sender, name, label string) (sum float64) {
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(s))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestSender(t *testing.T) {
	bodies := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- r.Method + " " + string(b)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	s, err := NewSender(Config{URL: server.URL, Logger: quiet})
	require.NoError(t, err)
	s.Add(published)
	require.Equal(t, `POST {"events":[{"id":"`+s.instance+`-1","type":"publish_start","time":"2026-01-31T12:00:00Z",`+
		`"session":7,"remote":"192.0.2.7:4711","transport":"quic","authority":"relay.example","path":"/moq",`+
		`"namespace":"live/a%20b","track":"video"}]}`, <-bodies)
	s.Close(t.Context())
	require.Equal(t, 1.0, value(t, s, "sluice_events_sent_total", ""))
	s.Add(published)
	require.Equal(t, 1.0, value(t, s, "sluice_events_dropped_total", droppedAtEnd))
	_, err = NewSender(Config{URL: "nowhere"})
	require.ErrorContains(t, err, "must be https or http")
}

// service stands in for the service in a bubble: it records events, and answers with errors as long as there are some.
type service struct {
	t      *testing.T
	errors []error
	hold   chan struct{} // if not nil, an answer waits for it
	tries  []time.Duration
	began  time.Time
	got    []record
}

func (v *service) post(ctx context.Context, b []byte) error {
	v.tries = append(v.tries, time.Since(v.began))
	if v.hold != nil {
		select {
		case <-v.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if len(v.errors) > 0 {
		err := v.errors[0]
		v.errors = v.errors[1:]
		return err
	}
	var body struct{ Events []record }
	require.NoError(v.t, json.Unmarshal(b, &body))
	v.got = append(v.got, body.Events...)
	return nil
}

func inBubble(t *testing.T, test func(*testing.T, *service, *Sender)) {
	synctest.Test(t, func(t *testing.T) {
		v := &service{t: t, began: time.Now()}
		s := newSender(quiet, v.post)
		go s.run()
		defer s.Close(t.Context())
		test(t, v, s)
	})
}

var errDown = errors.New("connection refused")

func TestEventsAreSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, s *Sender) {
		for range 4 {
			v.errors = append(v.errors, errDown)
			v.errors = append(v.errors, &webclient.StatusError{Status: 503}, &webclient.StatusError{Status: 429})
		}
		s.Add(published)
		s.Add(published)
		time.Sleep(maxAge)
		synctest.Wait()
		// The second event has a message of its own if the first one was quicker.
		require.Contains(t, []int{13, 14}, len(v.tries))
		longest := minPause
		for i, at := range v.tries[1:13] {
			pause := at - v.tries[i]
			require.LessOrEqual(t, pause, longest)
			require.GreaterOrEqual(t, pause, longest/2)
			longest = min(2*longest, maxPause)
		}
		require.Len(t, v.got, 2)
		require.True(t, strings.HasSuffix(v.got[0].ID, "-1") && strings.HasSuffix(v.got[1].ID, "-2"), "in their order")
		require.Equal(t, 2.0, value(t, s, "sluice_events_sent_total", ""))
		require.Zero(t, value(t, s, "sluice_events_dropped_total", ""))
	})
}

func TestEventsAreGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, s *Sender) {
		v.errors = []error{&webclient.StatusError{Status: 400}}
		s.Add(published)
		synctest.Wait()
		require.Len(t, v.tries, 1)
		require.Equal(t, 1.0, value(t, s, "sluice_events_dropped_total", droppedRefused))
		for range 100 {
			v.errors = append(v.errors, errDown)
		}
		s.Add(published)
		time.Sleep(maxAge + 2*maxPause)
		synctest.Wait()
		require.Equal(t, 1.0, value(t, s, "sluice_events_dropped_total", droppedAge))
		v.errors = nil
		s.Add(published)
		synctest.Wait()
		require.Len(t, v.got, 1, "later events are sent")
	})
}

func TestQueueIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, s *Sender) {
		v.hold = make(chan struct{})
		s.Add(published)
		synctest.Wait() // the first one is on its way
		for range queueSize + 10 {
			s.Add(published)
		}
		require.Equal(t, 10.0, value(t, s, "sluice_events_dropped_total", droppedQueue))
		close(v.hold)
		synctest.Wait()
		require.Len(t, v.got, queueSize+1)
		require.Len(t, v.tries, 1+(queueSize+maxBatch-1)/maxBatch, "in batches")
		s.Add(published)
		synctest.Wait()
		last := v.got[len(v.got)-1].ID
		require.True(t, strings.HasSuffix(last, "-4108"), "the numbers show the gap: %s", last)
	})
}

func TestCloseDoesNotWaitForever(t *testing.T) {
	inBubble(t, func(t *testing.T, v *service, s *Sender) {
		v.hold = make(chan struct{})
		for range 3 {
			s.Add(published)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Close(ctx)
		require.Equal(t, 3.0, value(t, s, "sluice_events_dropped_total", droppedAtEnd))
	})
}

func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		l := NewLog(slog.New(slog.NewTextHandler(&b, nil)))
		e := published
		e.Reason = "gone"
		l.Add(e)
		require.Contains(t, b.String(), "level=INFO msg=event type=publish_start session=7 remote=192.0.2.7:4711 "+
			"transport=quic authority=relay.example path=/moq namespace=live/a%20b track=video reason=gone\n")
		for range logBurst + 9 {
			l.Add(published)
		}
		require.Equal(t, logBurst, strings.Count(b.String(), "\n"))
		b.Reset()
		time.Sleep(time.Second)
		l.Add(relay.Event{Type: relay.EventSessionEnd})
		require.Contains(t, b.String(), "type=session_end")
		require.Contains(t, b.String(), "omitted=10\n")
	})
}
