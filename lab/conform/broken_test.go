package conform

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
	"sluice/moqt"
	"sluice/transport"
)

// brokenRelays serve a session in ways that break rules.
var brokenRelays = map[string]func(context.Context, transport.Conn){
	"silent": func(context.Context, transport.Conn) {},
	// It refuses all requests, in the same way, and closes no session.
	"indulgent": func(ctx context.Context, conn transport.Conn) {
		v := greet(conn)
		for {
			stream, err := conn.AcceptStream(ctx)
			if err != nil {
				return
			}
			refusal, _ := moqt.AppendMessage(nil, v, &moqt.RequestError{})
			_, _ = stream.Write(refusal)
		}
	},
	// It closes each session at its first request, or data.
	"touchy": func(ctx context.Context, conn transport.Conn) {
		greet(conn)
		_, _ = conn.AcceptUniStream(ctx) // the control stream
		over := func() { _ = conn.CloseWithError(uint64(moqt.SessionInternalError), "something came") }
		go func() {
			_, _ = conn.AcceptUniStream(ctx)
			over()
		}()
		go func() {
			_, _ = conn.ReceiveDatagram(ctx)
			over()
		}()
		_, _ = conn.AcceptStream(ctx)
		over()
	},
}

// greet sends SETUP.
func greet(conn transport.Conn) moqt.Version {
	v, _ := moqt.ParseALPN(conn.Protocol())
	stream, err := conn.OpenUniStream()
	if err == nil {
		m, _ := moqt.AppendMessage(nil, v, &moqt.Setup{MaxAuthTokenCacheSize: 1 << 10})
		_, _ = stream.Write(m)
	}
	return v
}

// TestBrokenRelays has each case fail with one of them, so that it says something.
func TestBrokenRelays(t *testing.T) {
	unfailed := make(map[string]bool)
	for _, c := range Cases() {
		unfailed[c.String()] = true
	}
	for name, serve := range brokenRelays {
		for _, scheme := range []string{"moqt", "https"} {
			for _, v := range []moqt.Version{moqt.Draft18, moqt.Draft22} {
				t.Run(fmt.Sprint(name, " ", scheme, " ", uint16(v)), func(t *testing.T) {
					inBubble(t, func(t *testing.T, n *sim.Network) {
						s := suiteFor(t, n, scheme+"://"+serveBroken(t, n, serve)+"/", v)
						for _, c := range s.Applicable(Cases()) {
							if f := s.Try(t.Context(), c); f != nil && (name != "silent" || c.Runner == "setup-only") {
								require.NotEmpty(t, f.Expected)
								require.NotEmpty(t, f.Received)
								delete(unfailed, c.String())
							}
						}
					})
				})
			}
		}
	}
	require.Empty(t, slices.Sorted(maps.Keys(unfailed)), "no broken relay fails these")
}

// serveBroken accepts sessions until the test ends, and returns the address.
func serveBroken(t *testing.T, n *sim.Network, serve func(context.Context, transport.Conn)) string {
	t.Helper()
	l, err := transport.Listen("127.0.0.1:0", listening(t, n))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				return
			}
			running.Go(func() { serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		stop()
		require.NoError(t, l.Close())
		running.Wait()
	})
	return l.Addr().String()
}

// deaf is a client's connection whose streams with data never come.
type deaf struct{ transport.Conn }

// AcceptUniStream implements [transport.Conn]: the first stream is the control stream.
func (d deaf) AcceptUniStream(ctx context.Context) (transport.ReceiveStream, error) {
	for {
		stream, err := d.Conn.AcceptUniStream(ctx)
		if err != nil || stream.ID() == 3 {
			return stream, err
		}
		stream.CancelRead(0)
	}
}

// ReceiveDatagram implements [transport.Conn].
func (d deaf) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestLostData loses all objects between the relay and its clients: each case that is about objects fails.
func TestLostData(t *testing.T) {
	about := []string{"REQUEST_UPDATE of a subscription is answered", "joining FETCH without objects is refused"}
	inBubble(t, func(t *testing.T, n *sim.Network) {
		s := suiteFor(t, n, "moqt://"+serveSluice(t, n), moqt.Draft18)
		dial := s.Dial
		s.Dial = func(ctx context.Context, protocols []string) (transport.Conn, error) {
			conn, err := dial(ctx, protocols)
			return deaf{conn}, err
		}
		for _, c := range s.Applicable(trackCases) {
			f := s.Try(t.Context(), c)
			require.Equal(t, !slices.Contains(about, c.Name), f != nil, "%s: %v", c, f)
		}
	})
}
