package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/video"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/server"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// startRelay runs a relay on loopback until the test ends, and returns its URL.
func startRelay(t *testing.T) string {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg := server.Config{Listen: "127.0.0.1:0"}
	cfg.Transport.Certificate = &cert
	s, err := server.Listen(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-served
		_ = s.Drain("", time.Second)
	})
	return fmt.Sprintf("moqt://%v", s.Addr())
}

// remote is a load generator that runs beside a test, as a process would.
type remote struct {
	in     io.WriteCloser
	events *json.Decoder
	ended  chan error
}

func startGenerator(t *testing.T, cfg GeneratorConfig) *remote {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	r := &remote{in: inWrite, events: json.NewDecoder(outRead), ended: make(chan error, 1)}
	go func() {
		err := Run(t.Context(), cfg, inRead, outWrite)
		outWrite.CloseWithError(err)
		r.ended <- err
	}()
	t.Cleanup(func() { inWrite.Close() })
	return r
}

func (r *remote) tell(t *testing.T, command string) {
	t.Helper()
	_, err := io.WriteString(r.in, command+"\n")
	require.NoError(t, err)
}

func (r *remote) event(t *testing.T) (e Event) {
	t.Helper()
	require.NoError(t, r.events.Decode(&e))
	return e
}

// A publisher and subscribers go through their whole life with a relay between them; no object is lost or damaged.
func TestGenerators(t *testing.T) {
	const sessions, frames = 3, 5
	url := startRelay(t)
	mock := video.Mock{Rate: 1e6, FrameRate: 100, Group: 10, Layers: true}
	publisher := startGenerator(t, GeneratorConfig{Publish: true, URL: url, Mock: mock, Audio: true})
	require.True(t, publisher.event(t).Ready)
	subscribers := startGenerator(t, GeneratorConfig{
		URL: url, Mock: mock, Audio: true, Sessions: sessions, Record: true,
	})
	require.Equal(t, Event{Ready: true}, subscribers.event(t))
	subscribers.tell(t, Count)
	require.Zero(t, *subscribers.event(t).Delivered)
	first := newReceiver(mock.WithDefaults(), false)
	g := &generator{GeneratorConfig: GeneratorConfig{URL: url, Namespace: Namespace}}
	c, err := g.join(t.Context(), first)
	require.NoError(t, err)
	defer c.close()
	publisher.tell(t, Go)
	first.waitFor(t.Context(), frames)
	publisher.tell(t, Stop)
	published := publisher.event(t).Published
	require.NotNil(t, published)
	require.GreaterOrEqual(t, published.Objects, uint64(frames))
	require.Zero(t, published.Failed)
	require.EqualValues(t, published.Objects, published.Late.Count)
	for delivered := uint64(0); delivered < sessions*published.Objects; delivered = *subscribers.event(t).Delivered {
		subscribers.tell(t, Count)
	}
	subscribers.tell(t, fmt.Sprintf("%s %d", Stop, published.Objects))
	received := subscribers.event(t).Received
	require.Len(t, received, sessions)
	for i, r := range received {
		require.Equal(t, published.Objects, r.Objects)
		require.Equal(t, published.Bytes, r.Bytes)
		require.Zero(t, r.Corrupt+r.Duplicates)
		if i == 0 {
			require.Len(t, r.Arrivals, int(published.Objects))
			require.NotEmpty(t, r.Audio)
			require.Equal(t, video.Audio.Size(0), r.Audio[0].Bytes)
		} else {
			require.Empty(t, slices.Concat(r.Arrivals, r.Audio), "only the first session records")
		}
	}
	publisher.tell(t, Stop)
	require.NoError(t, <-publisher.ended)
	require.NoError(t, <-subscribers.ended)
}

// A frame counts as published if it is sent on the subscriptions that have not ended.
func TestSubscriptionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &publisher{track: moqt.FullTrackName{Namespace: moqt.Namespace{"bench"}, Name: "video"}}
		here, there := transporttest.Pipe(transporttest.PipeConfig{})
		s, err := session.New(here, session.Config{Role: session.Client, Authority: "relay", Path: "/", Handler: h})
		require.NoError(t, err)
		relay, err := session.New(there, session.Config{Role: session.Server, Handler: session.Unsupported{}})
		require.NoError(t, err)
		go s.Run(t.Context())
		go relay.Run(t.Context())
		defer s.Close(moqt.SessionNoError, "")
		<-relay.Ready()
		mock := video.Mock{Group: 1}.WithDefaults()
		send := func(n uint64) error { return h.send(t.Context(), mock.Frame(n), mock.Payload(n, time.Now())) }
		for n := range uint64(3) {
			sub, err := relay.Subscribe(t.Context(), moqt.Subscribe{Track: h.track}, newReceiver(mock, false))
			require.NoError(t, err)
			_, err = sub.Wait(t.Context())
			require.NoError(t, err)
			require.NoError(t, send(n))
			sub.Cancel(moqt.ResetCancelled)
			synctest.Wait()
		}
		require.ErrorIs(t, send(3), errNoSubscription)
	})
}

func TestCommandsAreChecked(t *testing.T) {
	url := startRelay(t)
	publisher := startGenerator(t, GeneratorConfig{Publish: true, URL: url})
	require.True(t, publisher.event(t).Ready)
	publisher.tell(t, "halt")
	require.EqualError(t, <-publisher.ended, `command: "halt": must be "go"`)

	publisher = startGenerator(t, GeneratorConfig{Publish: true, URL: url, Namespace: "another"})
	require.True(t, publisher.event(t).Ready)
	publisher.tell(t, Go)
	publisher.tell(t, Go)
	require.EqualError(t, <-publisher.ended, `command: "go": must be "stop"`)

	subscribers := startGenerator(t, GeneratorConfig{URL: url}) // no sessions: it is ready at once
	require.True(t, subscribers.event(t).Ready)
	subscribers.tell(t, Stop+" x")
	require.ErrorContains(t, <-subscribers.ended, `command: stop "x": must have a number of objects`)

	closed := startGenerator(t, GeneratorConfig{URL: url})
	require.True(t, closed.event(t).Ready)
	require.NoError(t, closed.in.Close())
	require.ErrorIs(t, <-closed.ended, io.ErrUnexpectedEOF)
}

// A hog ends when its context does.
func TestHog(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, Run(ctx, GeneratorConfig{Hog: time.Hour}, nil, io.Discard))
}

func TestReceiverWaits(t *testing.T) {
	m := video.Mock{}.WithDefaults()
	take := func(r *receiver, n uint64) {
		o := object{Location: m.Frame(n).Location}
		o.digest.Write(m.Payload(n, time.Unix(0, 5)))
		r.take(o)
	}
	r := newReceiver(m, false)
	take(r, 0)
	r.waitFor(t.Context(), 1) // it has arrived
	done := make(chan struct{})
	go func() {
		r.waitFor(t.Context(), 3)
		close(done)
	}()
	take(r, 1)
	take(r, 1) // a duplicate does not count
	take(r, 2)
	<-done
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	newReceiver(m, false).waitFor(stopped, 1)
}
