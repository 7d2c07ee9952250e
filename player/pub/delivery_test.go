package pub

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport/transporttest"
)

// server delivers a track to each subscriber.
type server struct {
	session.Unsupported
	track *track
}

func (s server) HandleSubscribe(p *session.Publication) {
	largest := s.track.largest()
	if p.Accept(moqt.Parameters{LargestObject: largest}, nil) == nil {
		newDelivery(s.track, p, s.track.startOf(p.Parameters().Filter, largest), nil).run()
	}
}

// serveTrack returns a peer that can subscribe to a new track. It must be called in a bubble of synctest.
func serveTrack(t *testing.T) (*track, *peer) {
	t.Helper()
	tr := newTrack(name("1.m4s"), 128, nil, History{})
	near, far := transporttest.Pipe(transporttest.PipeConfig{})
	p := &peer{t: t}
	for conn, cfg := range map[*transporttest.Conn]session.Config{
		near: {Handler: p}, far: {Role: session.Server, Handler: server{track: tr}},
	} {
		cfg.Logger = slog.New(slog.DiscardHandler)
		s, err := session.New(conn, cfg)
		require.NoError(t, err)
		go func() { _ = s.Run(context.Background()) }() // ends with the peer's
		if conn == near {
			p.session = s
		}
	}
	t.Cleanup(func() { p.session.Close(moqt.SessionNoError, "") })
	return tr, p
}

func addBytes(tr *track, n int) {
	tr.add(object{priority: tr.priority, born: time.Now(), payload: make([]byte, n)})
}

// slow reads streams when it is told to.
type slow struct {
	*received
	read chan struct{}
}

func (r slow) HandleSubgroup(g *session.Subgroup) {
	<-r.read
	r.received.HandleSubgroup(g)
}

// subscribeSlowly subscribes, and waits until what is published has been sent as far as it can be.
func subscribeSlowly(p *peer, parameters moqt.Parameters) (*session.Subscription, slow) {
	r := slow{newReceived(), make(chan struct{})}
	m := moqt.Subscribe{Track: name("1.m4s"), Parameters: parameters}
	s, err := p.session.Subscribe(p.t.Context(), m, r)
	require.NoError(p.t, err)
	_, err = s.Wait(p.t.Context())
	require.NoError(p.t, err)
	synctest.Wait()
	return s, r
}

// A subscription ends with an update that the session refuses.
func TestDeliveryEndsWithARefusedUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, p := serveTrack(t)
		tr.startGroup(0)
		addBytes(tr, 100)
		s, r, err := p.subscribe("1.m4s", moqt.Parameters{})
		require.NoError(t, err)
		synctest.Wait() // the stream is there
		token := moqt.Token{AliasType: moqt.AliasUseValue, Value: []byte("twice")}
		_, err = s.Update(t.Context(), moqt.Parameters{AuthorizationTokens: []moqt.Token{token, token}})
		refused, ok := errors.AsType[*moqt.RequestError](err)
		require.True(t, ok, err)
		require.Equal(t, moqt.RequestMalformedAuthToken, refused.Code)
		<-s.Context().Done()
		require.ErrorContains(t, context.Cause(s.Context()), "UPDATE_FAILED")
		synctest.Wait()
		require.Equal(t, 1, r.resets)
	})
}

// An update that comes while an object is being sent resets the stream, even if no object follows.
func TestDeliveryIsUpdatedWhileItSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, p := serveTrack(t)
		tr.startGroup(0)
		addBytes(tr, 100_000) // more than the window of a stream
		s, r := subscribeSlowly(p, moqt.Parameters{})
		_, err := s.Update(t.Context(), moqt.Parameters{Forward: new(false)})
		require.NoError(t, err)
		close(r.read)
		synctest.Wait()
		require.Equal(t, 1, r.resets)
	})
}

// A subscriber cannot make the publisher keep the streams of finished subgroups for ever.
func TestDeliveryForgetsSubgroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, p := serveTrack(t)
		tr.startGroup(0)
		addBytes(tr, 100)
		_, r := subscribeSlowly(p, moqt.Parameters{SubgroupDeliveryTimeout: new(uint64(1 << 60))})
		tr.startGroup(1)
		time.Sleep(maxSubgroupTimeout)
		synctest.Wait()
		close(r.read)
		synctest.Wait()
		require.Equal(t, 1, r.resets)
	})
}

// A delivery waits for what has begun, and nothing begins any more when it has.
func TestDeliveryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &delivery{running: 1, idle: make(chan struct{})}
		group, fill := make(chan struct{}), make(chan struct{})
		require.True(t, d.spawn(func() { <-group }))
		d.finished() // follow
		require.True(t, d.spawn(func() { <-fill }))
		close(group)
		synctest.Wait()
		require.True(t, d.spawn(func() {}))
		synctest.Wait()
		select {
		case <-d.idle:
			require.Fail(t, "a fill is being sent")
		default:
		}
		close(fill)
		<-d.idle
		require.False(t, d.spawn(func() {}))
	})
}
