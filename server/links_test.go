package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/logs/logstest"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// join connects a client that runs a session until the test ends.
func join(t *testing.T, s *Server, h session.Handler) *session.Session {
	t.Helper()
	return joinURL(t, "moqt://"+s.Addr().String()+"/", h, listenUDP(t))
}

// joinURL is join from another host, which opens UDP sockets by listen.
func joinURL(t *testing.T, url string, h session.Handler,
	listen func(string, *net.UDPAddr) (transport.UDPConn, error)) *session.Session {
	t.Helper()
	c, err := transport.Dial(t.Context(), url,
		transport.ClientConfig{Insecure: true, Protocols: moqt.ALPNs(), ListenUDP: listen})
	require.NoError(t, err)
	return runSession(t, c, h)
}

// runSession runs a session on a connection.
func runSession(t *testing.T, conn transport.Conn, h session.Handler) *session.Session {
	t.Helper()
	return runSessionAs(t, conn, session.Config{Handler: h, Authority: "relay", Path: "/"})
}

// runSessionAs is runSession with more of the configuration. Authority and Path are for raw QUIC.
func runSessionAs(t *testing.T, conn transport.Conn, cfg session.Config) *session.Session {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	if conn.Kind() != transport.RawQUIC {
		cfg.Authority, cfg.Path = "", ""
	}
	s, err := session.New(conn, cfg)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(context.Background())
	}()
	t.Cleanup(func() {
		s.Close(moqt.SessionNoError, "")
		<-ended
	})
	return s
}

// publish offers a track, on which send sends groups of one object.
func publish(t *testing.T, s *Server, name string) (send func(group uint64, payload []byte)) {
	t.Helper()
	return publishOn(t, join(t, s, nil), name)
}

func publishOn(t *testing.T, s *session.Session, name string) (send func(group uint64, payload []byte)) {
	t.Helper()
	p, err := s.Publish(t.Context(), moqt.Publish{
		Track: moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: name},
	})
	require.NoError(t, err)
	require.NoError(t, p.Wait(t.Context()))
	return func(group uint64, payload []byte) {
		h := moqt.SubgroupHeader{GroupID: group, FirstObject: true}
		stream, err := p.OpenSubgroup(t.Context(), h)
		require.NoError(t, err)
		encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
		b, err := encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: uint64(len(payload))})
		require.NoError(t, err)
		_, err = stream.Write(append(b, payload...))
		require.NoError(t, err)
		require.NoError(t, stream.Close())
	}
}

// streams passes the contents of subgroup streams on.
type streams chan []byte

func (c streams) HandleSubgroup(g *session.Subgroup) {
	if b, err := io.ReadAll(g); err == nil {
		c <- b
	}
}

func (c streams) HandleDatagram(*moqt.ObjectDatagram) {}

// receive subscribes to a track.
func receive(t *testing.T, s *Server, name string) streams {
	t.Helper()
	return receiveOn(t, join(t, s, nil), name)
}

// receiveOn subscribes to a track, which may still have to be announced to this relay.
func receiveOn(t *testing.T, s *session.Session, name string) streams {
	t.Helper()
	c := make(streams, 100)
	timeout := uint64(20_000) // ms
	sub, err := s.Subscribe(t.Context(), moqt.Subscribe{
		Track:      moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: name},
		Parameters: moqt.Parameters{RendezvousTimeout: &timeout},
	}, c)
	require.NoError(t, err)
	_, err = sub.Wait(t.Context())
	require.NoError(t, err)
	return c
}

// TestLinkIsMadeAnew loses a link. Media flows again after that.
func TestLinkIsMadeAnew(t *testing.T) {
	virtual(t, func(t *testing.T) {
		first, second := start(t, Config{}), start(t, Config{})
		conns := make(chan transport.Conn, 1)
		second.links.dial = func(ctx context.Context, url string, cfg transport.ClientConfig) (transport.Conn, error) {
			c, err := transport.Dial(ctx, url, cfg)
			conns <- c
			return c, err
		}
		targets, err := first.LinkTargets()
		require.NoError(t, err)
		second.LinkTo(t.Context(), targets)
		send := publish(t, first, "video")
		c := receive(t, second, "video")
		for g := range uint64(2) {
			send(g, []byte("media"))
			require.True(t, bytes.HasSuffix(c.await(t), []byte("media")))
			require.NoError(t, (<-conns).CloseWithError(uint64(moqt.SessionInternalError), "lost"))
		}
	})
}

// TestLinkTargets are useless without the secret, or with a wrong certificate.
func TestLinkTargets(t *testing.T) {
	var log logstest.Buffer
	first := start(t, Config{})
	second := start(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	targets, err := first.LinkTargets()
	require.NoError(t, err)
	require.True(t, targets[0].Address.Addr().IsLoopback())

	wrong := targets[0]
	wrong.Certificate = bytes.Repeat([]byte{1}, 32)
	second.LinkTo(t.Context(), []LinkTarget{wrong})
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "certificate has SHA-256") },
		time.Minute, 10*time.Millisecond)

	wrong = targets[0]
	wrong.Secret = []byte("guessed")
	second.LinkTo(t.Context(), []LinkTarget{wrong})
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "the secret is wrong") },
		time.Minute, 10*time.Millisecond)
	require.NotContains(t, log.String(), "guessed")
	require.NotContains(t, log.String(), string(targets[0].Secret))

	await(t, "there is no link", func() bool { // the process that guesses learns last that it has none
		targets, err = second.LinkTargets()
		return err == nil && len(targets) == 1
	})
}
