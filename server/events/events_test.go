package events

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/metrictest"
	"sluice/internal/outbox"
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

func TestSender(t *testing.T) {
	signature, bodies := make(chan string, 1), make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		signature <- r.Header.Get("webhook-signature")
		bodies <- r.Method + " " + string(b)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	s, err := NewSender(Config{URL: server.URL, Secrets: webclient.Secrets{make([]byte, 32)}, Logger: quiet})
	require.NoError(t, err)
	s.Add(published)
	require.Contains(t, <-signature, "v1,")
	require.Equal(t, `POST {"events":[{"id":"`+s.instance+`-1","type":"publish_start","time":"2026-01-31T12:00:00Z",`+
		`"session":7,"remote":"192.0.2.7:4711","transport":"quic","authority":"relay.example","path":"/moq",`+
		`"namespace":"live/a%20b","track":"video"}]}`, <-bodies)
	s.Close(t.Context())
	require.Equal(t, 1.0, metrictest.Sum(t, s, "sluice_events_sent_total"))
	s.Add(published)
	require.Equal(t, 1.0, metrictest.Sum(t, s, "sluice_events_dropped_total", outbox.DroppedAtEnd))
	_, err = NewSender(Config{URL: "nowhere"})
	require.ErrorContains(t, err, "must be https or http")
}

// Numbers count lost events, too: the service sees a gap.
func TestNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var got []record
		s := &Sender{Box: outbox.New(boxConfig(quiet), func(_ context.Context, b []byte) error {
			<-hold
			var body struct{ Events []record }
			require.NoError(t, json.Unmarshal(b, &body))
			got = append(got, body.Events...)
			return nil
		})}
		defer s.Close(t.Context())
		s.Add(published)
		synctest.Wait() // the first one is on its way
		for range queueSize + 10 {
			s.Add(published)
		}
		close(hold)
		synctest.Wait()
		s.Add(published)
		synctest.Wait()
		require.Len(t, got, queueSize+2)
		require.True(t, strings.HasSuffix(got[queueSize].ID, "-4097"), got[queueSize].ID)
		require.True(t, strings.HasSuffix(got[queueSize+1].ID, "-4108"), got[queueSize+1].ID)
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
