package rtt

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/internal/certtest"
	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/rtt/bpf"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// rounds are enough that quic-go uses the connection ID that it goes on with. A client of quic-go takes another one
// when the server has given it some, which it does before it sends data, and then only after 5,000 packets or more.
const rounds = 10

// quicLab has a connection of quic-go between two hosts, and a Monitor at the server's.
type quicLab struct {
	*lab.Lab
	t       *testing.T
	server  netip.AddrPort
	conn    *quic.Conn
	stream  *quic.Stream
	monitor *Monitor
	end     func() *reporttest.Sink
}

func newQUICLab(t *testing.T) *quicLab {
	l := &quicLab{Lab: labtest.New(t, lab.Topology{}), t: t}
	l.monitor, l.end = monitoring(t, l.Relay, MonitorConfig{
		Interfaces: []string{"up"}, QUIC: true, RateLimit: -1, IncludeLocal: true,
	})
	l.serve()
	var err error
	l.conn, err = l.transport(l.Publisher, netip.AddrPort{}).Dial(t.Context(), net.UDPAddrFromAddrPort(l.server),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"echo"}}, new(quic.Config))
	require.NoError(t, err)
	l.stream, err = l.conn.OpenStreamSync(t.Context())
	require.NoError(t, err)
	l.talk()
	return l
}

// transport returns a QUIC transport at an address of a host.
func (l *quicLab) transport(h *lab.Host, at netip.AddrPort) *quic.Transport {
	socket, err := h.ListenUDP(at)
	require.NoError(l.t, err)
	tr := &quic.Transport{Conn: socket}
	l.t.Cleanup(func() {
		require.NoError(l.t, tr.Close())
		require.NoError(l.t, socket.Close())
	})
	return tr
}

// serve accepts a connection, and echoes its first stream.
func (l *quicLab) serve() {
	files := certtest.New(l.t).Issue(l.t)
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	require.NoError(l.t, err)
	l.server = netip.AddrPortFrom(l.Relay.Facing(l.Publisher).IPv4.Addr(), 4433)
	listener, err := l.transport(l.Relay, l.server).Listen(
		&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"echo"}}, new(quic.Config))
	require.NoError(l.t, err)
	ctx := l.t.Context()
	go func() {
		conn, err := listener.Accept(ctx)
		if err != nil {
			return // the client, which does not connect, fails the test
		}
		stream, err := conn.AcceptStream(ctx)
		if err != nil {
			return
		}
		_, _ = io.Copy(stream, stream) // until the test ends
	}()
}

// talk makes packets pass in both directions, in turn.
func (l *quicLab) talk() {
	l.t.Helper()
	for range rounds {
		require.NoError(l.t, l.stream.SetDeadline(time.Now().Add(time.Minute)))
		_, err := l.stream.Write([]byte("hello"))
		require.NoError(l.t, err)
		_, err = io.ReadFull(l.stream, make([]byte, 5))
		require.NoError(l.t, err)
	}
}

// counted returns how often something has happened, and how many flows there are.
func (l *quicLab) counted(tally bpf.MonitorTally) (n, flows uint64) {
	c, err := l.monitor.Counters()
	require.NoError(l.t, err)
	return c.Events[tally].Count, c.Flows
}

// client returns the address from which packets of the connection come: it has one flow, and that both directions.
func (l *quicLab) client() (at netip.AddrPort) {
	flows, err := l.monitor.Flows()
	require.NoError(l.t, err)
	require.NotEmpty(l.t, flows)
	for _, f := range flows {
		ends := map[netip.AddrPort]netip.AddrPort{f.Source: f.Destination, f.Destination: f.Source}
		require.Contains(l.t, ends, l.server)
		if at.IsValid() {
			require.Equal(l.t, at, ends[l.server])
		}
		at = ends[l.server]
	}
	return at
}

// TestClientBehindNAT has a NAT that forgets the port of a client of quic-go. The connection is the same flow before
// and after, which neither opens nor closes. In one of three connections, the client's first reply has an ID that the
// server has sent encrypted.
//
// A connection moves only once. The server goes to another port when it has a connection ID of the client to try the
// way with, and gets the next one some time later.
func TestClientBehindNAT(t *testing.T) {
	l := newQUICLab(t)
	rtts, _ := l.counted(bpf.MonitorTallyTALLY_RTTS)
	ambiguous, _ := l.counted(bpf.MonitorTallyTALLY_RTTS_AMBIGUOUS)
	require.EqualValues(t, 2, rtts+ambiguous, "both parts of the handshake")
	before := l.client()
	require.NoError(t, l.Publisher.Devices[0].Link.Rebind())
	l.talk() // so the server has sent to the new port
	moved, flows := l.counted(bpf.MonitorTallyTALLY_FLOWS_MOVED)
	require.EqualValues(t, 1, moved)
	require.EqualValues(t, 1, flows)
	require.Equal(t, before.Addr(), l.client().Addr())
	require.NotEqual(t, before.Port(), l.client().Port())
	got := l.end()
	require.Len(t, got.Flows, 1, "its opening")
	require.True(t, got.Flows[0].Opening)
	for _, s := range got.Samples {
		require.Equal(t, report.MethodHandshake, s.Method, "quic-go does not spin")
	}
}

// TestClientThatMigrates has a client of quic-go that goes to another port because it wants to. It takes a connection
// ID that nobody has seen, and is not followed.
func TestClientThatMigrates(t *testing.T) {
	l := newQUICLab(t)
	before := l.client()
	path, err := l.conn.AddPath(l.transport(l.Publisher, netip.AddrPort{}))
	require.NoError(t, err)
	require.NoError(t, path.Probe(t.Context()))
	require.NoError(t, path.Switch())
	l.talk()
	l.talk()
	require.NotEqual(t, before.Port(), netip.MustParseAddrPort(l.conn.LocalAddr().String()).Port())
	moved, flows := l.counted(bpf.MonitorTallyTALLY_FLOWS_MOVED)
	require.Zero(t, moved)
	require.EqualValues(t, 1, flows, "what is left of the connection, until it expires")
	require.Equal(t, before, l.client())
	require.Len(t, l.end().Flows, 1, "its opening")
}
