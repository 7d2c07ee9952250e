package session

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sluice/lab/sim"
	"sluice/moqt"
	"sluice/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loopback connects two ends over UDP, on a network in virtual time or, without one, on this machine's.
func loopback(ctx context.Context, t *testing.T, kind transport.Kind, n *sim.Network) (client, server transport.Conn) {
	log := slog.New(slog.DiscardHandler)
	cert, hash, err := transport.DevCertificate()
	require.NoError(t, err)
	protocols := []string{moqt.Draft18.ALPN()}
	cfg := transport.ListenConfig{Certificate: &cert, Protocols: protocols, Logger: log}
	dial := transport.ClientConfig{Protocols: protocols, CertificateSHA256: hash[:]}
	if n != nil {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
		cfg.Sockets = func(*net.UDPAddr) ([]transport.Socket, error) {
			c, err := n.Listen(at)
			return []transport.Socket{{Conn: c}}, err
		}
		dial.ListenUDP = func(string, *net.UDPAddr) (transport.UDPConn, error) { return n.Listen(at) }
	}
	l, err := transport.Listen("127.0.0.1:0", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	scheme := map[transport.Kind]string{transport.RawQUIC: "moqt", transport.WebTransport: "https"}[kind]
	url := fmt.Sprintf("%s://127.0.0.1:%d/live?x=1", scheme, l.Addr().(*net.UDPAddr).Port)
	client, err = transport.Dial(ctx, url, dial)
	require.NoError(t, err)
	server, err = l.Accept(ctx)
	require.NoError(t, err)
	return client, server
}

// overQUIC runs f with two sessions over a connection (see loopback).
func overQUIC(
	t *testing.T, kind transport.Kind, n *sim.Network, clientCfg, serverCfg Config, f func(client, server *Session),
) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	near, far := loopback(ctx, t, kind, n)
	log := slog.New(slog.DiscardHandler)
	clientCfg.Authority, clientCfg.Path, clientCfg.Logger = near.RemoteAddr().String(), "/live?x=1", log
	serverCfg.Role, serverCfg.Logger = Server, log
	client, err := New(near, clientCfg)
	require.NoError(t, err)
	server, err := New(far, serverCfg)
	require.NoError(t, err)
	ended := make(chan error, 2)
	for _, s := range []*Session{client, server} {
		go func() { ended <- s.Run(ctx) }()
	}
	peer, err := server.Peer(ctx)
	require.NoError(t, err)
	require.Equal(t, "/live?x=1", peer.Path)
	require.Equal(t, clientCfg.Authority, peer.Authority)
	f(client, server)
	client.Close(moqt.SessionNoError, "bye")
	for range 2 {
		require.NoError(t, <-ended)
	}
}

func TestOverQUIC(t *testing.T) {
	for _, kind := range []transport.Kind{transport.RawQUIC, transport.WebTransport} {
		t.Run(kind.String(), func(t *testing.T) {
			serverSide, clientSide := newHandler(), newHandler()
			clientCfg, serverCfg := Config{Handler: clientSide}, Config{Handler: serverSide}
			overQUIC(t, kind, nil, clientCfg, serverCfg, func(client, server *Session) {
				t.Run("subscribe", func(t *testing.T) { subscribeAndRead(t, client, serverSide) })
				t.Run("publish", func(t *testing.T) { publishAndRead(t, server, clientSide) })
				t.Run("fetch", func(t *testing.T) { fetchAndRead(t, client, serverSide) })
				t.Run("cancel", func(t *testing.T) { cancelOnBothSides(t, client, serverSide) })
				t.Run("namespaces", func(t *testing.T) { discover(t, client, serverSide) })
				t.Run("status", func(t *testing.T) { askForStatus(t, client, serverSide) })
			})
		})
	}
}

// sendAll sends one subgroup and one datagram, and ends the subscription when they have arrived.
func sendAll(t *testing.T, pub *Publication, body string, arrived <-chan struct{}) {
	stream, err := pub.OpenSubgroup(t.Context(), moqt.SubgroupHeader{GroupID: 5})
	require.NoError(t, err)
	_, err = io.WriteString(stream, body)
	require.NoError(t, err)
	require.NoError(t, stream.Close())
	o := moqt.ObjectDatagram{Location: moqt.Location{Group: 6}, Payload: []byte("datagram")}
	require.NoError(t, pub.SendDatagram(o))
	<-arrived
	require.NoError(t, pub.Done(moqt.DoneTrackEnded, "the end"))
}

func requireAll(t *testing.T, sub *Subscription, c *collector, body string, arrived chan<- struct{}) {
	got := <-c.subgroups
	require.NoError(t, got.err)
	require.Equal(t, body, string(got.body))
	require.EqualValues(t, 5, got.header.GroupID)
	require.Equal(t, "datagram", string((<-c.datagrams).Payload))
	close(arrived)
	<-sub.Context().Done()
	done := &DoneError{}
	require.ErrorAs(t, context.Cause(sub.Context()), &done)
	require.Equal(t, moqt.PublishDone{Status: moqt.DoneTrackEnded, StreamCount: 1, Reason: "the end"}, done.PublishDone)
}

func subscribeAndRead(t *testing.T, s *Session, h *handler) {
	body := strings.Repeat("0123456789", 30_000)
	c := newCollector()
	sub, err := s.Subscribe(t.Context(), moqt.Subscribe{Track: testTrack}, c)
	require.NoError(t, err)
	pub := <-h.subscribes
	require.NoError(t, pub.Accept(moqt.Parameters{}, nil))
	_, err = sub.Wait(t.Context())
	require.NoError(t, err)
	arrived := make(chan struct{})
	go func() {
		u := <-pub.Updates()
		require.NoError(t, u.OK(moqt.Parameters{}))
		sendAll(t, pub, body, arrived)
	}()
	_, err = sub.Update(t.Context(), moqt.Parameters{SubscriberPriority: new(uint8(1))})
	require.NoError(t, err)
	requireAll(t, sub, c, body, arrived)
}

func publishAndRead(t *testing.T, s *Session, h *handler) {
	pub, err := s.Publish(t.Context(), moqt.Publish{Track: testTrack})
	require.NoError(t, err)
	sub, c := <-h.publishes, newCollector()
	require.NoError(t, sub.Accept(moqt.Parameters{}, c))
	require.NoError(t, pub.Wait(t.Context()))
	arrived := make(chan struct{})
	go sendAll(t, pub, "short", arrived)
	requireAll(t, sub, c, "short", arrived)
}

func fetchAndRead(t *testing.T, s *Session, h *handler) {
	f, err := s.Fetch(t.Context(), moqt.Fetch{FetchType: moqt.FetchStandalone, Track: testTrack})
	require.NoError(t, err)
	in := <-h.fetches
	stream, err := in.OpenStream(t.Context())
	require.NoError(t, err)
	_, err = io.WriteString(stream, "objects")
	require.NoError(t, err)
	require.NoError(t, stream.Close())
	require.NoError(t, in.OK(moqt.FetchOK{EndOfTrack: true}))
	require.NoError(t, in.Done())
	data, err := f.Stream(t.Context())
	require.NoError(t, err)
	b, err := io.ReadAll(data)
	require.NoError(t, err)
	require.Equal(t, "objects", string(b))
	ok, err := f.Wait(t.Context())
	require.NoError(t, err)
	require.True(t, ok.EndOfTrack)
	<-f.Context().Done()
	require.ErrorIs(t, context.Cause(f.Context()), ErrFinished)
}

// cancelOnBothSides checks that cancellation reaches the other end with its code, in both directions.
func cancelOnBothSides(t *testing.T, s *Session, h *handler) {
	for _, bySubscriber := range []bool{true, false} {
		sub, err := s.Subscribe(t.Context(), moqt.Subscribe{Track: testTrack}, newCollector())
		require.NoError(t, err)
		pub := <-h.subscribes
		require.NoError(t, pub.Accept(moqt.Parameters{}, nil))
		_, err = sub.Wait(t.Context())
		require.NoError(t, err)
		var other context.Context
		if bySubscriber {
			sub.Cancel(moqt.ResetGoingAway)
			other = pub.Context()
		} else {
			pub.Cancel(moqt.ResetGoingAway)
			other = sub.Context()
		}
		<-other.Done()
		require.Equal(t, &transport.StreamError{Code: uint64(moqt.ResetGoingAway), Remote: true}, context.Cause(other))
	}
}

func discover(t *testing.T, s *Session, h *handler) {
	c := make(changes, 10)
	sub, err := s.SubscribeNamespace(t.Context(), moqt.SubscribeNamespace{Prefix: moqt.Namespace{"a"}}, c.notify)
	require.NoError(t, err)
	in := <-h.discovers
	require.NoError(t, in.OK())
	require.NoError(t, sub.Wait(t.Context()))
	require.NoError(t, in.Add(moqt.Namespace{"a", "b"}, moqt.Parameters{}))
	require.Equal(t, "+a/b", <-c)
	in.Cancel(moqt.ResetExcessiveLoad)
	require.Equal(t, "-a/b", <-c)
}

func askForStatus(t *testing.T, s *Session, h *handler) {
	go func() {
		in := <-h.statuses
		require.NoError(t, in.OK(moqt.Parameters{LargestObject: &moqt.Location{Group: 9}}, nil))
	}()
	ok, err := s.TrackStatus(t.Context(), moqt.TrackStatus{Track: testTrack})
	require.NoError(t, err)
	require.EqualValues(t, 9, ok.Parameters.LargestObject.Group)
}
