package media

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	_ "unsafe" // for linkname

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/lab/sim"
	"sluice/track"
	"sluice/transport"
)

// One suite for both ends (see transport/suites.go), and when quic-go updates keys.
//
//go:linkname defaultCipherSuitesTLS13 crypto/tls.defaultCipherSuitesTLS13
var defaultCipherSuitesTLS13 []uint16

//go:linkname defaultCipherSuitesTLS13NoAES crypto/tls.defaultCipherSuitesTLS13NoAES
var defaultCipherSuitesTLS13NoAES []uint16

//go:linkname firstKeyUpdate github.com/quic-go/quic-go/internal/handshake.FirstKeyUpdateInterval
var firstKeyUpdate uint64

//go:linkname keyUpdateInterval github.com/quic-go/quic-go/internal/handshake.keyUpdateInterval
var keyUpdateInterval atomic.Uint64

func useSuite(t testing.TB, id uint16) {
	a, b := defaultCipherSuitesTLS13, defaultCipherSuitesTLS13NoAES
	defaultCipherSuitesTLS13, defaultCipherSuitesTLS13NoAES = []uint16{id}, []uint16{id}
	t.Cleanup(func() { defaultCipherSuitesTLS13, defaultCipherSuitesTLS13NoAES = a, b })
}

func useKeyUpdates(t testing.TB, packets uint64) {
	a, b := firstKeyUpdate, keyUpdateInterval.Load()
	firstKeyUpdate = packets
	keyUpdateInterval.Store(packets)
	t.Cleanup(func() { firstKeyUpdate = a; keyUpdateInterval.Store(b) })
}

var testCertificate = sync.OnceValue(func() tls.Certificate {
	cert, _, err := transport.DevCertificate()
	if err != nil {
		panic(err)
	}
	return cert
})

// site is a server with a loop, as in a relay. It can dial, too.
type site struct {
	t     testing.TB
	loop  *Loop
	tr    *quic.Transport
	ln    *quic.Listener
	conf  *quic.Config
	hooks hooksOf
}

// hooksOf makes the hooks of a connection, and its sender.
type hooksOf func(*site, SenderConfig) (quic.Hooks, *Sender)

type senderKey struct{}

func newSite(t testing.TB, conn net.PacketConn, loop LoopConfig) *site {
	return newSiteWith(t, conn, loop, func(s *site, cfg SenderConfig) (quic.Hooks, *Sender) {
		sender := s.loop.NewSender(cfg)
		return sender.Hooks(), sender
	})
}

func newSiteWith(t testing.TB, conn net.PacketConn, loop LoopConfig, hooks hooksOf) *site {
	s := &site{t: t, tr: &quic.Transport{Conn: conn, ConnectionIDLength: 8}, hooks: hooks}
	var err error
	s.loop, err = NewLoop(loop, conn)
	require.NoError(t, err)
	s.tr.ConnContext = func(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
		h, sender := hooks(s, SenderConfig{})
		return quic.WithHooks(context.WithValue(ctx, senderKey{}, sender), h), nil
	}
	s.conf = &quic.Config{
		MaxIdleTimeout: 20 * time.Second, EnableDatagrams: true, EnableAckFrequency: true,
	}
	s.ln, err = s.tr.Listen(serverTLS(), s.conf)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.tr.Close()
		require.NoError(t, s.loop.Close())
		conn.Close()
	})
	return s
}

// loopback returns a socket on the loopback device.
func loopback(t testing.TB) *net.UDPConn {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	conn.SetReadBuffer(4 << 20)
	conn.SetWriteBuffer(4 << 20)
	return conn
}

var ownHost, peerHost = sim.Host(1), sim.Host(2)

// simulated returns a network and the sockets of both hosts. It is for a bubble of synctest.
func simulated(t testing.TB, link func(from, to netip.Addr) sim.Link) (n *sim.Network, own, peer *sim.Conn) {
	n = sim.New(1, link)
	t.Cleanup(n.Close)
	own, err := n.Listen(netip.AddrPortFrom(ownHost, 0))
	require.NoError(t, err)
	peer, err = n.Listen(netip.AddrPortFrom(peerHost, 0))
	require.NoError(t, err)
	return n, own, peer
}

func serverTLS() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{testCertificate()}, NextProtos: []string{"test"}}
}

func clientTLS() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"test"}}
}

// connection is one of a site, with a stock peer.
type connection struct {
	peer, own *quic.Conn
	sender    *Sender
}

// connect makes a connection with a peer whose connection IDs have that length. The peer dials, or the site does.
func (s *site) connect(ctx context.Context, dialed bool, conn net.PacketConn, conf *quic.Config, idLength int) (
	c connection,
) {
	conf = conf.Clone()
	conf.MaxIdleTimeout, conf.EnableDatagrams = cmp.Or(conf.MaxIdleTimeout, 20*time.Second), true
	tr := &quic.Transport{Conn: conn, ConnectionIDLength: idLength}
	s.t.Cleanup(func() { tr.Close(); conn.Close() })
	if dialed {
		ln, err := tr.Listen(serverTLS(), conf)
		require.NoError(s.t, err)
		own := s.conf.Clone()
		own.Versions = conf.Versions
		var h quic.Hooks
		h, c.sender = s.hooks(s, SenderConfig{Client: true})
		c.own, c.peer = meet(s.t, ctx, quic.WithHooks(ctx, h), s.tr, own, ln)
		return c
	}
	c.peer, c.own = meet(s.t, ctx, ctx, tr, conf, s.ln)
	c.sender = c.own.Context().Value(senderKey{}).(*Sender)
	return c
}

// meet dials, and returns both ends. dial is the context of the client's end.
func meet(t testing.TB, ctx, dial context.Context, tr *quic.Transport, conf *quic.Config, ln *quic.Listener) (
	client, server *quic.Conn,
) {
	client, err := tr.Dial(dial, ln.Addr(), clientTLS(), conf)
	require.NoError(t, err)
	server, err = ln.Accept(ctx)
	require.NoError(t, err)
	return client, server
}

// transfer is what a test sends over a connection, and checks.
type transfer struct {
	suite      uint16
	dialed     bool    // by the sender's end
	loss       float64 // the share of packets that are lost, and of those that come late. A third comes twice
	peer       quic.Config
	streams    int    // sent by the sender
	size       int    // bytes of each
	own        int    // streams that quic-go sends
	echo       bool   // quic-go traffic on a bidirectional stream, both ways
	idLength   int    // of the peer's connection IDs, which then have to change on the way
	keyUpdates uint64 // of quic-go, each so many packets
	due        bool   // the sender asks for key updates
	rebind     int    // how often the client gets another port
}

// network returns a network and the sockets of both ends.
func (x transfer) network(t *testing.T) (n *sim.Network, own, peer *sim.Conn) {
	rng := rand.New(rand.NewPCG(1, 1))
	return simulated(t, func(netip.Addr, netip.Addr) sim.Link {
		l := sim.Link{Delay: 5 * time.Millisecond, Loss: x.loss, Duplicate: x.loss / 3}
		if rng.Float64() < x.loss {
			l.Jitter = 3 * time.Millisecond
		}
		return l
	})
}

// indexed is content that begins with its own index.
func indexed(i uint64, n int) []byte {
	b := testBytes(int64(i)<<32, n)
	binary.BigEndian.PutUint64(b, i)
	return b
}

// ownIndex is the index of the first stream that quic-go sends.
const ownIndex = 1000

func (x transfer) run(t *testing.T) Stats {
	x.suite = cmp.Or(x.suite, tls.TLS_AES_128_GCM_SHA256)
	useSuite(t, x.suite)
	if x.keyUpdates > 0 {
		useKeyUpdates(t, x.keyUpdates)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	network, ownEnd, peerEnd := x.network(t)
	c := newSite(t, ownEnd, LoopConfig{}).connect(ctx, x.dialed, peerEnd, &x.peer, x.idLength)
	sender := c.sender
	require.Equal(t, x.suite, c.peer.ConnectionState().TLS.CipherSuite)

	var work sync.WaitGroup
	results := make(chan Result, x.streams)
	work.Go(func() { x.send(t, sender, results) })
	work.Go(func() { x.sendOwn(t, ctx, c.own) })
	if x.echo {
		work.Go(func() { echoServer(ctx, c.own) })
	}
	stopEcho := make(chan struct{})
	var echoing sync.WaitGroup
	if x.echo {
		echoing.Go(func() { echoClient(t, ctx, c.peer, stopEcho) })
	}
	var watching sync.WaitGroup
	watch, stopWatch := context.WithCancel(ctx)
	watching.Go(func() { x.disturb(t, watch, sender, network) })

	x.receive(t, ctx, c.peer, x.streams+x.own)
	for range x.streams {
		select {
		case r := <-results:
			require.Equal(t, Delivered, r.Outcome)
		case <-ctx.Done():
			t.Fatalf("streams did not end: %+v", sender.Stats())
		}
	}
	close(stopEcho)
	echoing.Wait()
	stopWatch()
	watching.Wait()
	c.own.CloseWithError(0, "") // a lost CONNECTION_CLOSE would take the idle timeout
	work.Wait()
	return sender.Stats()
}

// send feeds logs piece by piece, as a publisher does.
func (x transfer) send(t *testing.T, s *Sender, results chan<- Result) {
	sub := s.NewSubscription(SubscriptionConfig{Priority: 128})
	logs := make([]*track.Log, 0, x.streams)
	data := make([][]byte, 0, cap(logs))
	for i := range cap(logs) {
		data = append(data, indexed(uint64(i), x.size))
		logs = append(logs, track.NewLog(20, nil))
		_, err := sub.OpenStream(StreamConfig{
			Prefix: data[i][:8], Log: logs[i], Start: 20, Group: uint64(i), OnDone: func(r Result) { results <- r },
		})
		if err != nil {
			t.Error(err)
		}
		data[i] = data[i][8:]
	}
	for open := len(logs); open > 0; {
		for i, l := range logs {
			if data[i] == nil {
				continue
			}
			n := min(3000, len(data[i]))
			l.Append(data[i][:n])
			if data[i] = data[i][n:]; len(data[i]) == 0 {
				l.Finish()
				data[i] = nil
				open--
			}
		}
	}
}

func (x transfer) sendOwn(t *testing.T, ctx context.Context, c *quic.Conn) {
	for i := range x.own {
		s, err := c.OpenUniStreamSync(ctx)
		if err == nil {
			_, err = s.Write(indexed(ownIndex+uint64(i), x.size))
			s.Close()
		}
		if err != nil {
			t.Error("quic-go's stream:", err)
		}
	}
}

// receive reads streams and checks every byte.
func (x transfer) receive(t *testing.T, ctx context.Context, c *quic.Conn, n int) {
	var readers sync.WaitGroup
	defer readers.Wait()
	for range n {
		s, err := c.AcceptUniStream(ctx)
		if err != nil {
			t.Error("accept:", err)
			return
		}
		readers.Go(func() {
			var head [8]byte
			if _, err := io.ReadFull(s, head[:]); err != nil {
				t.Errorf("stream %d: %v", s.StreamID(), err)
				return
			}
			index := binary.BigEndian.Uint64(head[:])
			h := sha256.New()
			h.Write(head[:])
			want := sha256.Sum256(indexed(index, x.size))
			if n, err := io.Copy(h, s); err != nil || int(n)+8 != x.size || want != [32]byte(h.Sum(nil)) {
				t.Errorf("stream %d, index %d: %d bytes, %v: differs", s.StreamID(), index, n+8, err)
			}
		})
	}
}

func echoServer(ctx context.Context, c *quic.Conn) {
	if s, err := c.AcceptStream(ctx); err == nil {
		io.Copy(s, s)
	}
}

func echoClient(t *testing.T, ctx context.Context, c *quic.Conn, stop <-chan struct{}) {
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		b := testBytes(int64(i), 1+i*37%4000)
		go s.Write(b)
		got := make([]byte, len(b))
		if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(b, got) {
			t.Errorf("echo %d: %v", i, err)
			return
		}
	}
}

// disturb asks for key updates, and moves the client to other ports, as the transfer goes on.
func (x transfer) disturb(t *testing.T, ctx context.Context, s *Sender, n *sim.Network) {
	total := uint64(x.streams * x.size)
	connIDs := make(map[string]bool)
	client := peerHost
	if x.dialed {
		client = ownHost
	}
	for i := 0; ctx.Err() == nil; {
		sent := s.Stats().Bytes
		s.mu.Lock()
		if s.path.route != nil {
			connIDs[string(s.path.route.destConnID)] = true
		}
		s.mu.release()
		if x.due && sent > total/8 {
			s.keys.due.Store(true)
		}
		if i < x.rebind && sent > total*uint64(i+1)/uint64(x.rebind+1) {
			n.Rebind(client)
			i++
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
	unaware := x.dialed && x.rebind > 0 // a client behind a NAT goes on as before
	if x.idLength > 0 && !unaware && len(connIDs) < 2 {
		t.Error("the connection ID did not change")
	}
}

// TestEndToEnd sends what the simulation of relays does not: other suites, key updates, new ports and QUIC v2.
func TestEndToEnd(t *testing.T) {
	big := quic.Config{
		InitialConnectionReceiveWindow: 16 << 20, InitialStreamReceiveWindow: 16 << 20,
		MaxConnectionReceiveWindow: 16 << 20, MaxStreamReceiveWindow: 16 << 20,
	}
	const chacha = tls.TLS_CHACHA20_POLY1305_SHA256
	echoed := transfer{streams: 20, size: 200_000, loss: 0.03, echo: true, peer: big}
	with := func(x transfer, change func(*transfer)) transfer {
		change(&x)
		return x
	}
	// A peer that has nothing in flight when it moves, and sends nothing, cannot be found again.
	moving := quic.Config{KeepAlivePeriod: 200 * time.Millisecond}
	v2 := quic.Config{Versions: []quic.Version{quic.Version2}}
	for name, x := range map[string]transfer{
		"AES-128-GCM":        with(echoed, func(x *transfer) { x.suite = tls.TLS_AES_128_GCM_SHA256 }),
		"AES-256-GCM":        with(echoed, func(x *transfer) { x.suite = tls.TLS_AES_256_GCM_SHA384 }),
		"ChaCha20-Poly1305":  with(echoed, func(x *transfer) { x.suite = chacha }),
		"peer's key updates": with(echoed, func(x *transfer) { x.keyUpdates = 50 }),
		"our key updates":    with(echoed, func(x *transfer) { x.due, x.suite = true, chacha }),
		"new ports": {
			streams: 20, size: 200_000, rebind: 2, idLength: 8, echo: true, loss: 0.02, peer: moving,
		},
		"connection IDs": {streams: 20, size: 400_000, own: 60, idLength: 8, peer: big},
		"QUIC v2":        {streams: 20, size: 50_000, loss: 0.03, keyUpdates: 50, echo: true, peer: v2},
	} {
		for _, x.dialed = range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dialed=%v", name, x.dialed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := x.run(t)
					require.Zero(t, st.Open)
					if x.loss > 0 {
						require.NotZero(t, st.LostPackets)
					}
				})
			})
		}
	}
}
