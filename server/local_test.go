package server

import (
	"context"
	"crypto/sha256"
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
	<-runSession(t, conn, session.Unsupported{}).Ready()
	require.Eventually(t, func() bool {
		list := s.Relay().Sessions()
		return len(list) == 1 && list[0].Remote == client.String()
	}, time.Minute, time.Millisecond)
	second, err := s.DialFor(t.Context(), client)
	if err == nil { // it may be refused as soon as it is there
		<-second.Context().Done()
	}
}

// tenants allows what a token is the first field of, and everybody .catalog.
type tenants struct{}

func (tenants) Authorize(_ context.Context, r relay.AuthRequest) (relay.Grant, error) {
	if r.Name == ".catalog" || len(r.Tokens) > 0 && string(r.Tokens[0].Value) == r.Namespace[0] {
		return relay.Grant{}, nil
	}
	return relay.Grant{}, &moqt.RequestError{Code: moqt.RequestUnauthorized}
}

// TestDialOwn opens sessions of the relay itself: they have no quota, and only subscribe, to what their guests may.
func TestDialOwn(t *testing.T) {
	s := start(t, Config{Relay: relay.Config{PerAddress: relay.Quota{Sessions: 1}, Authorizer: tenants{}}})
	guest, err := s.Relay().Admit(t.Context(), relay.AuthRequest{
		Kind: transport.RTSP, Remote: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)}, Action: relay.ActionSubscribe,
		Namespace: moqt.Namespace{"live"}, Name: ".catalog",
		Tokens: []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte("live")}},
	})
	require.NoError(t, err)
	defer guest.Leave()
	for range 2 {
		audience := relay.NewAudience()
		require.NoError(t, audience.Join(t.Context(), guest))
		conn, err := s.DialOwn(t.Context(), audience)
		require.NoError(t, err)
		own := runSession(t, conn, session.Unsupported{})
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
	}
}

// TestStrangersAtTheLocalPort checks that another program on this machine gets no session there.
func TestStrangersAtTheLocalPort(t *testing.T) {
	s := start(t, Config{})
	conn, err := s.DialFor(t.Context(), &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)})
	require.NoError(t, err)
	defer conn.CloseWithError(0, "")
	_, err = conn.AcceptUniStream(t.Context()) // for the relay's SETUP: now it counts the session
	require.NoError(t, err)
	cfg := transport.ClientConfig{Insecure: true, Protocols: moqt.ALPNs()}
	cfg.ListenUDP = func(network string, _ *net.UDPAddr) (transport.UDPConn, error) {
		c, err := transport.ListenUDP(network, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)})
		if err == nil { // a session is being dialed from the same port of another address
			from := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), udpAddress(c.LocalAddr()).Port())
			s.local.dialed.Store(from, &dialed{client: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)}})
		}
		return c, err
	}
	stranger, err := transport.Dial(t.Context(), "moqt://"+s.local.port.listener.Addr().String()+"/", cfg)
	require.NoError(t, err)
	_, err = stranger.AcceptUniStream(t.Context())
	closed, ok := errors.AsType[*transport.SessionError](err)
	require.True(t, ok, err)
	require.EqualValues(t, moqt.SessionUnauthorized, closed.Code)
	require.Len(t, s.Relay().Sessions(), 1)
}

// TestSessionsThatDoNotArrive checks that nothing is left of a session that was dialed and is never served: another
// program that gets its address must not be taken for its client.
func TestSessionsThatDoNotArrive(t *testing.T) {
	s := start(t, Config{})
	cert, err := transport.SelfSignedCertificate(privateValidity)
	require.NoError(t, err)
	hash := sha256.Sum256(cert.Certificate[0])
	l := &local{port: privatePort{server: &Server{cfg: Config{}.withDefaults()}, certificate: hash[:]}}
	l.port.listener, err = transport.Listen("127.0.0.1:0", transport.ListenConfig{
		Certificate: &cert, Protocols: moqt.ALPNs(), Logger: s.log,
	})
	require.NoError(t, err)
	defer l.port.listener.Close()
	for _, gone := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := l.dial(ctx, &dialed{arrived: make(chan struct{})})
			failed <- err
		}()
		conn, err := l.port.listener.Accept(t.Context()) // and nobody takes it
		require.NoError(t, err)
		if gone {
			require.NoError(t, conn.CloseWithError(0, ""))
		} else {
			cancel()
		}
		require.Error(t, <-failed)
		l.dialed.Range(func(any, any) bool { require.Fail(t, "it is not forgotten"); return false })
		<-conn.Context().Done()
		cancel()
	}
}
