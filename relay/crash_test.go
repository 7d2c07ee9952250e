package relay

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// crashing connects a client whose process can crash: then its socket is gone, and its session says nothing more.
func (n *network) crashing(scheme string) (_ *session.Session, crash func()) {
	var socket *net.UDPConn
	conn, err := transport.Dial(n.t.Context(), fmt.Sprintf("%s://%s/", scheme, n.addr), transport.ClientConfig{
		Protocols: moqt.ALPNs(), CertificateSHA256: n.hash,
		ListenUDP: func(network string, local *net.UDPAddr) (_ transport.UDPConn, err error) {
			socket, err = net.ListenUDP(network, local)
			return socket, err
		},
	})
	require.NoError(n.t, err)
	cfg := session.Config{Logger: slog.New(slog.DiscardHandler)}
	if scheme == "moqt" {
		cfg.Authority, cfg.Path = n.addr.String(), "/"
	}
	s, err := session.New(conn, cfg)
	require.NoError(n.t, err)
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(n.t.Context()) })
	return s, func() {
		require.NoError(n.t, socket.Close())
		running.Wait()
	}
}

// TestCrashedPublisherIsReplaced crashes an encoder, which then publishes the track again from its beginning, while its
// first session has not timed out.
func TestCrashedPublisherIsReplaced(t *testing.T) {
	for _, scheme := range []string{"moqt", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			before, crash := n.crashing(scheme)
			sendOne(t, before, 5, "before")
			k := newFrames()
			viewer := n.connect("https", nil)
			sub, err := viewer.Subscribe(t.Context(), moqt.Subscribe{Track: video}, k)
			require.NoError(t, err)
			_, err = sub.Wait(t.Context())
			require.NoError(t, err)
			k.await(t, map[moqt.Location]string{at(5, 0): "before"})
			crash()
			after := n.connect(scheme, nil)
			sendOne(t, after, 0, "after")
			k.await(t, map[moqt.Location]string{at(5, 0): "before", at(0, 0): "after"})
			require.NoError(t, sub.Context().Err())
		})
	}
}

// sendOne offers the track, and sends one group of one object.
func sendOne(t *testing.T, s *session.Session, group uint64, body string) {
	p, err := s.Publish(t.Context(), moqt.Publish{Track: video})
	require.NoError(t, err)
	require.NoError(t, p.Wait(t.Context()))
	h := moqt.SubgroupHeader{GroupID: group, FirstObject: true}
	stream, err := p.OpenSubgroup(t.Context(), h)
	require.NoError(t, err)
	encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
	b, err := encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: uint64(len(body))})
	require.NoError(t, err)
	_, err = stream.Write(append(b, body...))
	require.NoError(t, err)
	require.NoError(t, stream.Close())
}
