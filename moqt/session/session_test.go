package session

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport"
	"sluice/transport/transporttest"
)

func TestGoawayFromThePeer(t *testing.T) {
	h := newHandler()
	play(t, setting{cfg: Config{Handler: h}}, func(p *script) {
		sub, _ := p.subscribed(testTrack, 1, newCollector())
		m := moqt.Goaway{NewSessionURI: "moqt://elsewhere", Timeout: 1000, RequestID: new(uint64(2))}
		p.write(p.control, p.encode(&m))
		require.Equal(p, m, <-h.goaways)
		_, err := p.s.Subscribe(p.Context(), moqt.Subscribe{Track: otherTrack}, newCollector())
		require.ErrorIs(p, err, ErrGoingAway)
		require.NoError(p, context.Cause(sub.Context()), "subscriptions stay")
		p.request(&moqt.Subscribe{Track: otherTrack}) // the peer may still ask
		<-h.subscribes
	})
}

func TestGoawayToThePeer(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		first := p.request(&moqt.Subscribe{Track: testTrack})
		pub := <-h.subscribes
		require.NoError(p, pub.Accept(moqt.Parameters{}, nil))
		first.receive()
		reader := moqt.NewReader(p.ours, moqt.Draft18)
		_, err := reader.Read()
		require.NoError(p, err)

		require.NoError(p, p.s.Goaway("moqt://elsewhere", 10*time.Second))
		require.ErrorIs(p, p.s.Goaway("", 0), errGoawayTwice)
		m, err := reader.Read()
		require.NoError(p, err)
		require.Equal(p, &moqt.Goaway{NewSessionURI: "moqt://elsewhere", Timeout: 10_000, RequestID: new(uint64(2))}, m)
		first.update(moqt.Parameters{}) // does not open anything
		require.NoError(p, (<-pub.Updates()).OK(moqt.Parameters{}))
		require.IsType(p, &moqt.RequestOK{}, first.receive())
		_, err = p.s.Subscribe(p.Context(), moqt.Subscribe{Track: otherTrack}, newCollector())
		require.NoError(p, err, "the sender may go on, if it has to")
	})
	play(t, setting{}, func(p *script) { require.ErrorIs(p, p.s.Goaway("moqt://elsewhere", 0), errURIOfClient) })
}

func TestEndOfTheSession(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*script)
		want error
	}{
		{"by us", func(p *script) { p.s.Close(moqt.SessionNoError, "done") }, nil},
		{"by us, with an error", func(p *script) {
			p.s.Close(moqt.SessionInternalError, "oops")
		}, &moqt.ProtocolError{Code: moqt.SessionInternalError, Reason: "oops"}},
		{"by the peer", func(p *script) { _ = p.conn.CloseWithError(0, "") }, nil},
		{"by the peer, with an error", func(p *script) {
			_ = p.conn.CloseWithError(uint64(moqt.SessionProtocolViolation), "you did it")
		}, &transport.SessionError{Code: 3, Remote: true, Reason: "you did it"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			serve(t, func(p *script, h *handler) {
				c := newCollector()
				sub, _ := p.subscribed(testTrack, 1, c)
				p.uni(subgroupHeader(1))
				p.request(&moqt.Subscribe{Track: testTrack})
				pub := <-h.subscribes
				stream, err := pub.OpenSubgroup(p.Context(), moqt.SubgroupHeader{})
				require.NoError(p, err)
				p.requireOpen()
				tc.end(p)
				require.Equal(p, tc.want, <-p.run)
				<-sub.Context().Done()
				<-pub.Context().Done()
				require.Error(p, (<-c.subgroups).err)
				_, err = stream.Write([]byte("x"))
				require.Error(p, err)
				_, err = p.s.Subscribe(p.Context(), moqt.Subscribe{Track: otherTrack}, newCollector())
				require.Error(p, err)
				_, err = p.s.Peer(p.Context())
				require.NoError(p, err)
			})
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	client, server := transporttest.Pipe(transporttest.PipeConfig{})
	s, err := New(client, Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, s.Run(ctx))
	closed, ok := errors.AsType[*transport.SessionError](context.Cause(server.Context()))
	require.True(t, ok)
	require.Zero(t, closed.Code)
}

// TestPeerThatStopsReading checks that one stalled stream does not delay others.
func TestPeerThatStopsReading(t *testing.T) {
	h := newHandler()
	set := setting{cfg: Config{Role: Server, Handler: h}, pipe: transporttest.PipeConfig{StreamWindow: 64}}
	play(t, set, func(p *script) {
		p.conn.Pause()
		p.request(&moqt.SubscribeNamespace{})
		stalled := <-h.discovers
		require.NoError(p, stalled.OK())
		for _, ns := range []string{"a", "b", "c", "d"} {
			require.NoError(p, stalled.Add(moqt.Namespace{ns, "long enough to fill the window"}, moqt.Parameters{}))
		}
		p.conn.Resume()
		e := p.request(&moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}})
		require.NoError(p, (<-h.namespaces).OK())
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		<-stalled.Context().Done()
		p.requireOpen()
	})
}

// TestPeerThatDoesNotCloseItsStreams checks that the stream of a request that is over is reset after a while.
func TestPeerThatDoesNotCloseItsStreams(t *testing.T) {
	play(t, setting{cfg: Config{Role: Server}}, func(p *script) {
		e := p.request(&moqt.Subscribe{Track: testTrack})
		e.requireRefused(moqt.RequestNotSupported)
		p.requireStopped(e, moqt.ResetCancelled)
		p.requireOpen()
	})
}

func TestResponsesThatThePeerDoesNotRead(t *testing.T) {
	play(t, setting{cfg: Config{Role: Server}, pipe: transporttest.PipeConfig{StreamWindow: 16}}, func(p *script) {
		p.sentSetup()
		e := p.request(&moqt.TrackStatus{})
		time.Sleep(11 * time.Second)
		e.requireReset(moqt.ResetTooFarBehind)
		p.requireOpen()
	})
}
