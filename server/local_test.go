package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay"
	"sluice/transport"
)

// TestDialFor opens a session for a client of another protocol: the relay sees the client's address, and its quota.
func TestDialFor(t *testing.T) {
	s := start(t, Config{Relay: relay.Config{PerAddress: relay.Quota{Sessions: 1}}})
	client := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 554}
	conn, err := s.DialFor(t.Context(), client)
	require.NoError(t, err)
	own, err := session.New(conn, session.Config{Handler: session.Unsupported{}, Authority: "relay.example", Path: "/"})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = own.Run(t.Context()) }()
	<-own.Ready()
	require.Eventually(t, func() bool {
		list := s.Relay().Sessions()
		return len(list) == 1 && list[0].Remote == client.String()
	}, time.Minute, time.Millisecond)
	second, err := s.DialFor(t.Context(), client)
	if err == nil { // it may be refused as soon as it is there
		<-second.Context().Done()
	}
	own.Close(moqt.SessionNoError, "")
	<-ended
}

// forbid allows nothing.
type forbid struct{}

func (forbid) Authorize(context.Context, relay.AuthRequest) (relay.Grant, error) {
	return relay.Grant{}, &moqt.RequestError{Code: moqt.RequestUnauthorized}
}

// TestDialForItself opens sessions of the relay itself: they need no permission and have no quota, but only subscribe.
func TestDialForItself(t *testing.T) {
	s := start(t, Config{Relay: relay.Config{PerAddress: relay.Quota{Sessions: 1}, Authorizer: forbid{}}})
	for range 2 {
		conn, err := s.DialFor(t.Context(), nil)
		require.NoError(t, err)
		own, err := session.New(conn, session.Config{Handler: session.Unsupported{}, Authority: "localhost", Path: "/"})
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() { defer close(ended); _ = own.Run(t.Context()) }()
		<-own.Ready()
		name := moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: "video"}
		refusal := func(err error) moqt.RequestErrorCode {
			refused, ok := errors.AsType[*moqt.RequestError](err)
			require.True(t, ok, err)
			return refused.Code
		}
		sub, err := own.Subscribe(t.Context(), moqt.Subscribe{Track: name}, nil)
		require.NoError(t, err)
		_, err = sub.Wait(t.Context())
		require.Equal(t, moqt.RequestDoesNotExist, refusal(err))
		pub, err := own.PublishNamespace(t.Context(), moqt.PublishNamespace{Namespace: name.Namespace})
		require.NoError(t, err)
		err = pub.Wait(t.Context())
		require.Equal(t, moqt.RequestUnauthorized, refusal(err))
		defer func() { own.Close(moqt.SessionNoError, ""); <-ended }()
	}
}

// TestStrangersAtTheLocalPort checks that another program on this machine gets no session there.
func TestStrangersAtTheLocalPort(t *testing.T) {
	s := start(t, Config{})
	conn, err := s.DialFor(t.Context(), &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)})
	require.NoError(t, err)
	defer conn.CloseWithError(0, "")
	cfg := transport.ClientConfig{Insecure: true, Protocols: moqt.ALPNs()}
	cfg.ListenUDP = func(network string, _ *net.UDPAddr) (*net.UDPConn, error) {
		c, err := net.ListenUDP(network, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)})
		if err == nil { // a session is being dialed from the same port of another address
			from := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), udpAddress(c.LocalAddr()).Port())
			s.local.add(from, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)})
		}
		return c, err
	}
	stranger, err := transport.Dial(t.Context(), "moqt://"+s.local.listener.Addr().String()+"/", cfg)
	require.NoError(t, err)
	_, err = stranger.AcceptUniStream(t.Context())
	closed, ok := errors.AsType[*transport.SessionError](err)
	require.True(t, ok, err)
	require.EqualValues(t, moqt.SessionUnauthorized, closed.Code)
	require.Len(t, s.Relay().Sessions(), 1)
}
