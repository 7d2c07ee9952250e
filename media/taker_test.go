package media

import (
	"context"
	"crypto/cipher"
	"crypto/tls"
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/thorough"
	"sluice/track"
)

// taker is a model of a forwarder that sends nothing, but takes ACKs from the network. It is the socket that quic-go
// reads from. It knows one connection.
type taker struct {
	fixedRoom
	clock clock.System
	hurt  func(*claim.TakenPacket) // changes what was taken; nil: nothing

	count atomic.Int64 // packets that were taken
	read  atomic.Int64 // by quic-go

	mu         sync.Mutex // guards all below
	receive    func(*claim.TakenPacket)
	taking     bool
	generation uint64
	keys       [2]claim.PacketKeys // by key phase
	aead       [2]cipher.AEAD
	remote     string
	ids        []string
	expected   uint64
	taken      []claim.TakenPacket
	deaf       bool // while ACKs are taken, other packets are lost
}

// takerConn is the socket with the methods of net.PacketConn only, so that quic-go reads packets one by one.
type takerConn struct {
	net.PacketConn
	t *taker
}

func (c takerConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, addr, err := c.PacketConn.ReadFrom(b)
		switch {
		case err == nil && c.t.take(b[:n], addr):
			c.t.count.Add(1)
		case err == nil && c.t.isDeaf():
		default:
			c.t.read.Add(1)
			return n, addr, err
		}
	}
}

func (t *taker) Connect(*claim.ConnState, func(*claim.StreamState)) claim.ForwarderConn { return t }
func (t *taker) Acknowledged()                                                          {}
func (t *taker) WriteKeys(uint64, *claim.PacketKeys)                                    {}
func (t *taker) SetSession(claim.Session)                                               {}
func (t *taker) CloseStream(*claim.StreamState)                                         {}
func (t *taker) Close()                                                                 {}

func (t *taker) OpenStream(*claim.PublisherStream) (*claim.StreamState, bool) { return nil, false }

func (t *taker) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

func (t *taker) ConnectionID(id []byte, usable bool) {
	t.change(func() {
		t.ids = slices.DeleteFunc(t.ids, func(s string) bool { return s == string(id) })
		if usable {
			t.ids = append(t.ids, string(id))
		}
	})
}

func (t *taker) Received(largest int64) {
	t.change(func() { t.expected = max(t.expected, uint64(largest+1)) })
}

func (t *taker) TakeAcks(_ int, receive func(*claim.TakenPacket)) {
	t.change(func() { t.receive = receive })
}

func (t *taker) SetTaking(on bool, generation uint64) {
	t.change(func() { t.taking, t.generation = on, generation })
}

func (t *taker) SetPath(p claim.Path) { t.change(func() { t.remote = p.Remote.String() }) }

func (t *taker) ReadKeys(generation uint64, k *claim.PacketKeys) {
	t.change(func() {
		hp := t.keys[0].HeaderProtection
		if generation == 0 {
			hp = k.HeaderProtection
		}
		t.keys[generation&1] = *k
		t.keys[generation&1].HeaderProtection = hp
		t.aead[generation&1], _ = chacha20poly1305.New(k.Key[:])
	})
}

// isDeaf reports whether a packet that was not taken is lost.
func (t *taker) isDeaf() (deaf bool) {
	t.change(func() { deaf = t.deaf && t.taking })
	return deaf
}

func (t *taker) HandOver(int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.taken {
		receive := t.receive
		t.mu.Unlock()
		receive(&p)
		t.mu.Lock()
	}
	t.taken = nil
}

// take takes a packet with nothing but an ACK, if it may.
func (t *taker) take(b []byte, from net.Addr) bool {
	const idLength = 8
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taking || b[0]&0x80 != 0 || len(b) < 1+idLength+20 || from.String() != t.remote ||
		!slices.Contains(t.ids, string(b[1:1+idLength])) {
		return false
	}
	number, payload, ok := t.open(append([]byte{}, b...), 1+idLength)
	if !ok {
		return false
	}
	rest := payload
	for len(rest) > 0 && rest[0] == packet.FramePadding {
		rest = rest[1:]
	}
	if len(rest) == 0 || rest[0]&^1 != packet.FrameAck {
		return false
	}
	rest, err := packet.ParseAck(rest, 3, new(quic.AckInfo))
	if err != nil || slices.ContainsFunc(rest, func(b byte) bool { return b != packet.FramePadding }) {
		return false
	}
	t.expected = max(t.expected, number+1)
	p := claim.TakenPacket{Number: number, Received: t.clock.Now(), Frames: payload}
	if t.hurt != nil {
		t.hurt(&p)
	}
	t.taken = append(t.taken, p)
	return true
}

// open opens a packet whose number begins at an offset (RFC 9001 §5).
func (t *taker) open(b []byte, at int) (number uint64, payload []byte, ok bool) {
	k := &t.keys[t.generation&1]
	sample := b[at+4 : at+20]
	c, _ := chacha20.NewUnauthenticatedCipher(k.HeaderProtection[:], sample[4:])
	c.SetCounter(binary.LittleEndian.Uint32(sample))
	mask := make([]byte, 5)
	c.XORKeyStream(mask, mask)
	b[0] ^= mask[0] & 0x1f
	n := int(b[0]&3) + 1
	for i := range n {
		b[at+i] ^= mask[1+i]
		number = number<<8 | uint64(b[at+i])
	}
	if uint64(b[0]>>2&1) != t.generation&1 {
		return 0, nil, false
	}
	window := uint64(1) << (8 * n) // RFC 9000 §A.3
	number |= t.expected &^ (window - 1)
	switch {
	case number+window/2 <= t.expected:
		number += window
	case number > t.expected+window/2 && number >= window:
		number -= window
	}
	nonce := slices.Clone(k.IV[:])
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^number)
	payload, err := t.aead[t.generation&1].Open(nil, nonce, b[at+n:], b[:at+n])
	return number, payload, err == nil
}

// trickle is a connection on which a stream trickles, and whose ACKs are taken.
type trickle struct {
	*testing.T
	connection
	taker *taker
	log   *track.Log
	stop  func() // ends the trickle
}

// newTrickle makes a connection with an idle timeout. The peer dials, or the site does.
func newTrickle(t *testing.T, idle time.Duration, dialed bool) *trickle {
	useSuite(t, tls.TLS_CHACHA20_POLY1305_SHA256)
	r := &trickle{T: t, taker: &taker{clock: clock.NewSystem()}, log: track.NewLog(0, nil)}
	ctx, cancel := context.WithCancel(t.Context())
	site := newSite(t, LoopConfig{Memory: r.taker, Shards: 1})
	r.connection = site.connect(ctx, dialed, proxyConfig{}, &quic.Config{
		MaxIdleTimeout: idle, InitialStreamReceiveWindow: 8 << 20, InitialConnectionReceiveWindow: 8 << 20,
	}, 4)
	sub := r.sender.NewSubscription(SubscriptionConfig{})
	_, err := sub.OpenStream(StreamConfig{Prefix: []byte("prefix"), Log: r.log})
	require.NoError(t, err)
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			r.log.Append(make([]byte, 100))
			time.Sleep(3 * time.Millisecond)
		}
	})
	working.Go(func() {
		s, err := r.peer.AcceptUniStream(ctx)
		for b := make([]byte, 1000); err == nil; {
			_, err = s.Read(b)
		}
	})
	r.stop = func() {
		cancel()
		r.peer.CloseWithError(0, "")
		working.Wait()
	}
	t.Cleanup(r.stop)
	return r
}

// take waits until n more packets are taken.
func (r *trickle) take(n int64) {
	r.Helper()
	until := r.taker.count.Load() + n
	require.Eventually(r, func() bool {
		return r.taker.count.Load() >= until || r.own.Context().Err() != nil
	}, time.Minute, time.Millisecond)
	require.NoError(r, context.Cause(r.own.Context()))
}

var takenFor = flag.Float64("taken", 4, "how many idle timeouts TestTakenAcksKeepConnections runs")

// A connection lives for several idle timeouts with nothing but ACKs, which quic-go does not see, and quic-go sends no
// PING to keep it alive.
func TestTakenAcksKeepConnections(t *testing.T) {
	thorough.Only(t)
	const idle = 4 * time.Second
	r := newTrickle(t, idle, false)
	r.take(50)
	r.taker.change(func() { r.taker.deaf = true }) // quic-go adds PING to each 20th ACK
	read := r.taker.read.Load()
	for begin := time.Now(); time.Since(begin) < time.Duration(*takenFor*float64(idle)); {
		r.take(10)
	}
	t.Logf("%d packets were taken, quic-go read %d", r.taker.count.Load(), r.taker.read.Load()-read)
	require.Less(t, r.taker.read.Load()-read, int64(10))
	require.Greater(t, r.sender.Stats().TakenAcks, uint64(50))
}

// A peer that has gone is noticed: what was taken before does not keep the connection.
func TestIdleTimeoutAfterTakenAcks(t *testing.T) {
	thorough.Only(t)
	const idle = 4 * time.Second
	r := newTrickle(t, idle, false)
	r.take(50)
	r.proxy.up.Load().Close()
	select {
	case <-r.own.Context().Done():
	case <-time.After(idle + time.Minute):
		t.Fatal("the connection goes on")
	}
	var timeout *quic.IdleTimeoutError
	require.ErrorAs(t, context.Cause(r.own.Context()), &timeout)
}

// ACKs are taken before and after key updates, which both ends begin.
func TestTakenAcksAndKeyUpdates(t *testing.T) {
	for _, dialed := range []bool{false, true} {
		t.Run(fmt.Sprintf("dialed=%v", dialed), func(t *testing.T) { testTakenAcksAndKeyUpdates(t, dialed) })
	}
}

func testTakenAcksAndKeyUpdates(t *testing.T, dialed bool) {
	useKeyUpdates(t, 100)
	r := newTrickle(t, time.Minute, dialed) // however busy the machine is
	for generation := uint64(0); generation < 6; {
		r.take(5)
		r.sender.keys.due.Store(generation%2 == 1)
		r.taker.change(func() { generation = r.taker.generation })
	}
	r.take(5)
}

// ACKs are taken before and after the client changes its address.
func TestTakenAcksAndMigration(t *testing.T) {
	r := newTrickle(t, time.Minute, false) // however busy the machine is
	for _, ip := range []net.IP{net.IPv4(127, 0, 0, 2), net.IPv4(127, 0, 0, 3)} {
		r.take(20)
		r.proxy.rebind(t, ip)
		require.Eventually(t, func() bool { // the client has to send something: at the old address it hears nothing
			require.NoError(t, r.peer.SendDatagram(nil))
			return r.own.RemoteAddr().(*net.UDPAddr).IP.Equal(ip)
		}, time.Minute, 5*time.Millisecond)
	}
	r.take(20)
}

// ACKs of a server are taken before and after it sees another address of the site, which goes on as before.
func TestTakenAcksAndOwnMigration(t *testing.T) {
	r := newTrickle(t, time.Minute, true) // however busy the machine is
	for _, ip := range []net.IP{net.IPv4(127, 0, 0, 2), net.IPv4(127, 0, 0, 3)} {
		r.take(20)
		r.proxy.rebind(t, ip)
		require.Eventually(t, func() bool { return r.peer.RemoteAddr().(*net.UDPAddr).IP.Equal(ip) },
			time.Minute, 5*time.Millisecond)
	}
	r.take(20)
}

// A peer that acknowledges what was not sent is turned out, although no ACK of it reaches quic-go at first.
func TestOptimisticTakenAcks(t *testing.T) {
	r := newTrickle(t, time.Minute, false) // however busy the machine is
	r.take(20)
	r.taker.change(func() {
		r.taker.hurt = func(p *claim.TakenPacket) {
			largest := r.taker.conn.NextPN.Load()&claim.NumberMask - 1
			p.Frames = packet.AppendFrame(nil, packet.FrameAck, largest, 0, 0, min(largest, 1000))
		}
	})
	for r.own.Context().Err() == nil { // the next skipped number is acknowledged
		r.sender.mu.Lock()
		r.sender.ledger.skipAt = min(r.sender.ledger.skipAt, r.sender.ledger.next())
		r.sender.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	var broken *quic.TransportError
	require.ErrorAs(t, context.Cause(r.own.Context()), &broken)
	require.Equal(t, quic.ProtocolViolation, broken.ErrorCode)
	require.False(t, broken.Remote)
}

// TestTransferWithTakenAcks sends much on bad paths, with all that else happens on a connection.
func TestTransferWithTakenAcks(t *testing.T) {
	var taken int64 // on a bad path there may be none
	for name, x := range map[string]transfer{
		"clean": {streams: 30, size: 200_000, own: 5, echo: true, datagrams: 20},
		"lossy": {streams: 20, size: 100_000, own: 3, echo: true, keyUpdates: 100,
			proxy: proxyConfig{loss: 0.02, reorder: 0.02, duplicate: 0.02, bothWays: true, delay: time.Millisecond}},
		"small windows": {streams: 10, size: 100_000, stop: 3, peer: quic.Config{
			InitialStreamReceiveWindow: 2000, MaxStreamReceiveWindow: 2000, InitialConnectionReceiveWindow: 5000,
			MaxConnectionReceiveWindow: 5000}},
	} {
		for _, x.dialed = range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dialed=%v", name, x.dialed), func(t *testing.T) {
				taker := &taker{clock: clock.NewSystem()}
				x.suite, x.loop = tls.TLS_CHACHA20_POLY1305_SHA256, LoopConfig{Memory: taker, Shards: 1}
				x.run(t)
				t.Logf("%d packets were taken, quic-go read %d", taker.count.Load(), taker.read.Load())
				taken += int64(taker.count.Load())
			})
		}
	}
	require.NotZero(t, taken)
}
