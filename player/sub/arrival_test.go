package sub

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/client"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// process is a relay's process that has a publisher. Without a Largest Object it has just got that.
type process struct {
	session.Unsupported
	subscriptions chan *session.Publication
	fetches       chan *session.IncomingFetch
	largest       *moqt.Location
}

func newProcess(largest *moqt.Location) *process {
	return &process{
		subscriptions: make(chan *session.Publication, 1), fetches: make(chan *session.IncomingFetch, 1),
		largest: largest,
	}
}

// HandleSubscribe implements [session.Handler].
func (p *process) HandleSubscribe(s *session.Publication) {
	if s.Accept(moqt.Parameters{LargestObject: p.largest}, nil) == nil {
		p.subscriptions <- s
		<-s.Context().Done()
	}
}

// HandleFetch implements [session.Handler].
func (p *process) HandleFetch(f *session.IncomingFetch) { p.fetches <- f }

// connect returns a client's session with a server.
func connect(t *testing.T, h session.Handler, protocol string) *session.Session {
	t.Helper()
	client, server := transporttest.Pipe(transporttest.PipeConfig{Protocol: protocol})
	var ends []*session.Session
	for _, cfg := range []session.Config{{Role: session.Server, Handler: h}, {Handler: session.Unsupported{}}} {
		conn := client
		if cfg.Role == session.Server {
			conn = server
		}
		s, err := session.New(conn, cfg)
		require.NoError(t, err)
		go func() { _ = s.Run(context.Background()) }()
		ends = append(ends, s)
	}
	t.Cleanup(func() { ends[1].Close(moqt.SessionNoError, "") })
	return ends[1]
}

// TestMoveWithoutLargestObject has a player of group 1 move to a session in which nothing tells how far the track is,
// until group 3 begins. The session before is needed until then: its objects are played. Group 2 is fetched.
func TestMoveWithoutLargestObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, in, chunks := clip(t)
		var out, want bytes.Buffer
		var objects [][]byte // two of each group
		for _, c := range chunks {
			if c.Track == 2 && len(objects) < 8 {
				objects = append(objects, c.Data)
				want.Write(c.Data)
			}
		}
		datagram := func(group, object uint64) *moqt.ObjectDatagram {
			return &moqt.ObjectDatagram{
				Location: at(group, object), Payload: objects[2*group+object], EndOfGroup: object == 1,
			}
		}
		cfg := PlayerConfig{Namespace: namespace, Out: &out}.withDefaults()
		p := &playback{cfg: &cfg, ctx: t.Context(), log: cfg.Client.Logger, player: newPlayer(&out, in, hold, limits{})}
		lane := p.player.addLane("2.m4s", in.Track(2), nil)
		lane.seq.start(at(0, 0))
		before := &laneReceiver{e: &playing{p: p}, lane: lane, first: newArrival()}
		go func() { _ = p.player.run(t.Context()) }()
		take := func(group, object uint64) {
			before.HandleDatagram(datagram(group, object))
			synctest.Wait()
		}
		take(0, 0)
		take(0, 1)
		take(1, 0)

		relay := newProcess(nil)
		e := &playing{p: p, link: &client.Link{Session: connect(t, relay, "moqt-18")}}
		answered := false
		go func() { _ = e.play(t.Context(), lane, func() { answered = true }) }()
		synctest.Wait()
		s := <-relay.subscriptions
		require.False(t, answered, "the session before still brings objects")
		take(1, 1)
		require.NoError(t, s.SendDatagram(*datagram(3, 0)))
		synctest.Wait()
		f := <-relay.fetches
		require.False(t, answered)
		require.Equal(t, moqt.Range{Start: at(1, 0), End: at(2, moqt.MaxLocation.Object)}, f.Range)
		respond(t, f, datagram(1, 0), datagram(1, 1), datagram(2, 0), datagram(2, 1))
		require.NoError(t, s.SendDatagram(*datagram(3, 1)))
		synctest.Wait()
		require.True(t, answered)
		require.True(t, bytes.Equal(want.Bytes(), out.Bytes()))
		require.Zero(t, lane.seq.counted.Gaps)
	})
}

// TestFallBack has a publisher count from 0 again, in the same subscription: what comes too late is not played, but
// from the second group after some silence on.
func TestFallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		cfg := PlayerConfig{Namespace: namespace, Out: &out}.withDefaults()
		p := &playback{cfg: &cfg, ctx: t.Context(), player: newPlayer(&out, nil, hold, limits{})}
		r := &laneReceiver{e: &playing{p: p}, lane: p.player.addLane("2.m4s", nil, nil), first: newArrival()}
		go func() { _ = p.player.run(t.Context()) }()
		for _, group := range []uint64{7, 0, 1, 2} {
			r.HandleDatagram(&moqt.ObjectDatagram{Location: at(group, 0), Payload: []byte{'0' + byte(group)}})
			time.Sleep(silence/2 + 1)
			synctest.Wait()
		}
		require.Equal(t, "72", out.String())
	})
}

// TestFetchBreaksOff has a relay reset the response to a FETCH behind the first object of two, and the next response
// behind the other one: then nothing lacks. Drafts before 20 have joining ones.
func TestFetchBreaksOff(t *testing.T) {
	for _, protocol := range []string{"moqt-18", "moqt-22"} {
		t.Run(protocol, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { breakOff(t, protocol) }) })
	}
}

func breakOff(t *testing.T, protocol string) {
	t.Helper()
	var out, log bytes.Buffer
	cfg := PlayerConfig{Namespace: namespace, Out: &out}.withDefaults()
	p := &playback{cfg: &cfg, ctx: t.Context(), player: newPlayer(&out, nil, hold, limits{})}
	p.log = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Client.Logger = p.log
	lane := p.player.addLane("2.m4s", nil, nil)
	go func() { _ = p.player.run(t.Context()) }()
	largest := at(3, 1)
	relay := newProcess(&largest)
	e := &playing{p: p, link: &client.Link{Session: connect(t, relay, protocol)}}
	go func() { _ = e.play(t.Context(), lane, func() {}) }()
	first := &moqt.ObjectDatagram{Location: at(3, 0), Payload: []byte("first")}
	second := &moqt.ObjectDatagram{Location: at(3, 1), Payload: []byte("second")}
	begin(t, <-relay.fetches, first).CancelWrite(uint64(moqt.ResetUnknownObjectStatus))
	synctest.Wait()
	require.Len(t, relay.fetches, 1, "the player does not ask again")
	rest := <-relay.fetches
	require.Equal(t, second.Location, rest.Range.Start)
	begin(t, rest, second).CancelWrite(uint64(moqt.ResetUnknownObjectStatus))
	synctest.Wait()
	require.Equal(t, "firstsecond", out.String())
	require.Empty(t, relay.fetches)
	require.Empty(t, log.String())
}

// respond sends objects as the response to a FETCH.
func respond(t *testing.T, f *session.IncomingFetch, objects ...*moqt.ObjectDatagram) {
	t.Helper()
	require.NoError(t, begin(t, f, objects...).Close())
	require.NoError(t, f.Done())
}

// begin sends objects as the beginning of a response.
func begin(t *testing.T, f *session.IncomingFetch, objects ...*moqt.ObjectDatagram) transport.SendStream {
	t.Helper()
	require.NoError(t, f.OK(moqt.FetchOK{End: f.Range.FetchEnd()}))
	stream, err := f.OpenStream(t.Context())
	require.NoError(t, err)
	encoder := moqt.NewFetchEncoder(f.Session().Version(), moqt.Ascending)
	for _, o := range objects {
		header := moqt.FetchObject{Location: o.Location, PayloadLength: uint64(len(o.Payload))}
		b, err := encoder.AppendObject(nil, &header)
		require.NoError(t, err)
		_, err = stream.Write(append(b, o.Payload...))
		require.NoError(t, err)
	}
	return stream
}

// TestMoveOn has a player leave a session, for the next one, in which nothing has told how far the track is.
func TestMoveOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := PlayerConfig{Namespace: namespace}.withDefaults()
		p := &playback{cfg: &cfg, ctx: t.Context(), log: cfg.Client.Logger}
		p.player = newPlayer(io.Discard, nil, hold, limits{})
		lane := p.player.addLane("2.m4s", nil, nil)
		lane.seq.start(at(0, 0))
		relay := newProcess(nil)
		e := &playing{p: p, link: &client.Link{Session: connect(t, relay, "moqt-18")}}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- e.play(ctx, lane, func() {}) }()
		<-relay.subscriptions
		synctest.Wait()
		leave()
		synctest.Wait()
		require.Len(t, left, 1)
	})
}

// TestNextSessionBegins has a relay send no catalog. The session that replaces this one does not wait for it.
func TestNextSessionBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := PlayerConfig{Namespace: namespace, Catalogs: []string{"catalog"}}.withDefaults()
		p := &playback{cfg: &cfg, ctx: t.Context(), log: cfg.Client.Logger}
		thinks := newProcess(nil)
		link, first := &client.Link{Session: connect(t, thinks, "moqt-18")}, make(chan error, 1)
		go func() {
			_, err := p.begin(t.Context(), link)
			first <- err
		}()
		<-thinks.subscriptions
		_, err := p.begin(t.Context(), &client.Link{Session: connect(t, session.Unsupported{}, "moqt-18")})
		require.ErrorContains(t, err, "not supported")
		require.Empty(t, first)
		require.ErrorContains(t, <-first, "no catalog")
	})
}

// TestSessionThatEndsEarly has a session end before the relay has answered. What other sessions bring is not held up.
func TestSessionThatEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		cfg := PlayerConfig{Namespace: namespace}.withDefaults()
		p := &playback{cfg: &cfg, ctx: t.Context(), log: cfg.Client.Logger}
		p.player = newPlayer(&out, nil, hold, limits{})
		lane := p.player.addLane("2.m4s", nil, nil)
		lane.seq.start(at(0, 0))
		go func() { _ = p.player.run(t.Context()) }() // without a lane it would be over at once
		other := &laneReceiver{e: &playing{p: p}, lane: lane, first: newArrival()}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		e := &playing{p: p, link: &client.Link{Session: connect(t, newProcess(nil), "moqt-18")}}
		require.ErrorIs(t, e.play(ended, lane, func() {}), context.Canceled)
		for _, object := range []uint64{0, 2} {
			other.HandleDatagram(&moqt.ObjectDatagram{Location: at(0, object), Payload: []byte("x")})
		}
		time.Sleep(2 * hold)
		synctest.Wait()
		require.Equal(t, "xx", out.String())
	})
}
