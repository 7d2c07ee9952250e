package transport

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"
)

// testSender sends packets of its own on a connection, with ChaCha20-Poly1305. It retransmits nothing: it serves
// tests on loopback.
type testSender struct {
	pc      net.PacketConn
	word    atomic.Uint64 // key generation << 62 | next packet number
	nextUni atomic.Int64
	maxUni  atomic.Int64
	sent    atomic.Int64
	maxData atomic.Int64
	due     atomic.Bool
	path    atomic.Pointer[quic.PathInfo]
	ready   chan struct{} // closed at the first Path

	elsewhere atomic.Pointer[quic.ReceivedElsewhere]

	mu      sync.Mutex
	params  quic.PeerParameters
	aead    [4]cipher.AEAD
	iv      [4][]byte
	hp      []byte
	acked   map[int64]bool
	stopped map[int64]uint64
	closed  error
}

func newTestSender(pc net.PacketConn, firstUni int64) *testSender {
	s := &testSender{pc: pc, ready: make(chan struct{}), acked: map[int64]bool{}, stopped: map[int64]uint64{}}
	s.nextUni.Store(firstUni)
	return s
}

const pnMask = 1<<62 - 1

func (s *testSender) NextPacketNumber() int64 { return int64((s.word.Add(1) - 1) & pnMask) }
func (s *testSender) PeekPacketNumber() int64 { return int64(s.word.Load() & pnMask) }
func (s *testSender) PeekUniStream() int64    { return s.nextUni.Load() }
func (s *testSender) ReturnData(n int64)      { s.sent.Add(-n) }
func (s *testSender) DataAvailable() int64    { return s.maxData.Load() - s.sent.Load() }
func (s *testSender) KeyUpdateDue() bool      { return s.due.Load() }
func (s *testSender) MaxUDPPayloadSize() int  { return 1300 }

func (s *testSender) ConnectionID(quic.ConnectionID, bool) {}
func (s *testSender) Received(int64, int, time.Time)       {}
func (s *testSender) OwnInFlight(bool)                     {}
func (s *testSender) Take(quic.OfferedPacket) bool         { return false }

func (s *testSender) ReceivedElsewhere() (*quic.ReceivedElsewhere, error) {
	return s.elsewhere.Load(), nil
}

func (s *testSender) NextUniStream() (int64, bool) {
	for {
		id := s.nextUni.Load()
		if id/4 >= s.maxUni.Load() {
			return 0, false
		}
		if s.nextUni.CompareAndSwap(id, id+4) {
			return id, true
		}
	}
}

func (s *testSender) TakeData(n int64, all bool) int64 {
	for {
		sent := s.sent.Load()
		m := min(n, s.maxData.Load()-sent)
		if m <= 0 || all && m < n {
			return 0
		}
		if s.sent.CompareAndSwap(sent, sent+m) {
			return m
		}
	}
}

func (s *testSender) Keys(phase uint64, suite uint16, _ uint32, _, write []byte) {
	if write == nil {
		return
	}
	if suite != tls.TLS_CHACHA20_POLY1305_SHA256 {
		panic("another suite was negotiated")
	}
	s.mu.Lock()
	s.aead[phase&3], _ = chacha20poly1305.New(expand(write, "quic key", 32))
	s.iv[phase&3] = expand(write, "quic iv", 12)
	if phase == 0 {
		s.hp = expand(write, "quic hp", 32)
	}
	s.mu.Unlock()
	if phase > 0 {
		s.word.Add(1 << 62)
		s.due.Store(false)
	}
}

// expand is HKDF-Expand-Label (RFC 8446 §7.1).
func expand(secret []byte, label string, n int) []byte {
	l := "tls13 " + label
	info := append([]byte{byte(n >> 8), byte(n), byte(len(l))}, l...)
	b, err := hkdf.Expand(sha256.New, secret, string(append(info, 0)), n)
	if err != nil {
		panic(err)
	}
	return b
}

func (s *testSender) Acked(a *quic.AckInfo) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range a.Ranges {
		for pn := r.Smallest; pn <= r.Largest; pn++ {
			s.acked[pn] = true
		}
	}
	return 0, nil
}

func (s *testSender) PeerParameters(p quic.PeerParameters) {
	s.mu.Lock()
	s.params = p
	s.mu.Unlock()
	s.MaxData(p.MaxData)
	s.MaxStreams(p.MaxStreamsUni)
}

func (s *testSender) MaxData(n int64)            { s.maxData.Store(max(n, s.maxData.Load())) }
func (s *testSender) MaxStreams(n int64)         { s.maxUni.Store(max(n, s.maxUni.Load())) }
func (s *testSender) MaxStreamData(int64, int64) {}

func (s *testSender) StopSending(id int64, code uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped[id] = code
}

func (s *testSender) Path(p quic.PathInfo) {
	if s.path.Swap(&p) == nil {
		close(s.ready)
	}
}

func (s *testSender) Closed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = err
}

// send puts frames in a packet, and returns its number.
func (s *testSender) send(t *testing.T, frames []byte) int64 {
	<-s.ready
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.word.Add(1) - 1
	pn, gen := int64(w&pnMask), w>>62
	path := s.path.Load()
	b := append([]byte{0x43 | byte(gen&1)<<2}, path.DestConnID.Bytes()...)
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(pn))
	nonce := append([]byte(nil), s.iv[gen]...)
	for i := range 8 {
		nonce[4+i] ^= byte(pn >> (56 - 8*i))
	}
	b = s.aead[gen].Seal(b, nonce, frames, b)
	mask, sample := make([]byte, 5), b[at+4:at+20]
	c, err := chacha20.NewUnauthenticatedCipher(s.hp, sample[4:])
	require.NoError(t, err)
	c.SetCounter(binary.LittleEndian.Uint32(sample))
	c.XORKeyStream(mask, mask)
	b[0] ^= mask[0] & 0x1f
	for i := range 4 {
		b[at+i] ^= mask[1+i]
	}
	require.LessOrEqual(t, len(b), path.MTU)
	_, err = s.pc.WriteTo(b, path.Remote)
	require.NoError(t, err)
	return pn
}

func (s *testSender) eventually(t *testing.T, f func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return f()
	}, time.Minute, time.Millisecond)
}

// streamFrame is a STREAM frame with FIN, if there is data, at an offset.
func streamFrame(id int64, data []byte) []byte {
	b := quicvarint.Append([]byte{0x0b}, uint64(id)) // LEN, FIN
	b = quicvarint.Append(b, uint64(len(data)))
	return append(b, data...)
}

// hookedConns makes a session with a sender of its own at either end.
func hookedConns(t *testing.T, k Kind) (client, server Conn) {
	s := newServer(t, func(c *ListenConfig) {
		c.NewHooks = func(pc net.PacketConn, _ int) quic.Hooks { return newTestSender(pc, 3) }
	})
	return s.connect(t, k, func(c *ClientConfig) {
		c.NewHooks = func(pc net.PacketConn) quic.Hooks { return newTestSender(pc, 2) }
	})
}

func hooked(t *testing.T, f func(t *testing.T, from, to Conn, s *testSender)) {
	for _, k := range []Kind{RawQUIC, WebTransport} {
		t.Run(k.String(), func(t *testing.T) {
			client, server := hookedConns(t, k)
			t.Run("from server", func(t *testing.T) { f(t, server, client, server.Hooks().(*testSender)) })
			t.Run("from client", func(t *testing.T) { f(t, client, server, client.Hooks().(*testSender)) })
		})
	}
}

func TestHookedResetAndStopSending(t *testing.T) {
	hooked(t, func(t *testing.T, from, to Conn, s *testSender) {
		<-s.ready
		id, _ := s.NextUniStream()
		data := append(append([]byte(nil), from.StreamPrefix()...), 'x')
		frame := streamFrame(id, data)
		frame[0] &^= 1 // no FIN
		s.TakeData(int64(len(data)), true)
		s.send(t, frame)
		r, err := to.AcceptUniStream(testContext(t))
		require.NoError(t, err)
		_, err = io.ReadFull(r, make([]byte, 1))
		require.NoError(t, err)

		reset := quicvarint.Append([]byte{0x04}, uint64(id))
		reset = quicvarint.Append(reset, from.StreamErrorCode(0x1234))
		s.send(t, quicvarint.Append(reset, uint64(len(data))))
		_, err = r.Read(make([]byte, 1))
		require.Equal(t, &StreamError{Code: 0x1234, Remote: true}, err)

		id, _ = s.NextUniStream()
		frame = streamFrame(id, data)
		frame[0] &^= 1
		s.TakeData(int64(len(data)), true)
		s.send(t, frame)
		r, err = to.AcceptUniStream(testContext(t))
		require.NoError(t, err)
		r.CancelRead(0x4321)
		s.eventually(t, func() bool { return s.stopped[id] == to.StreamErrorCode(0x4321) })
		require.NoError(t, from.Context().Err(), "a stream that quic-go does not know must not bother it")
	})
}

// TestLastReceivedElsewhere has a hook that receives packets. They count when quic-go has to send a keep-alive.
func TestLastReceivedElsewhere(t *testing.T) {
	hooked(t, func(t *testing.T, from, _ Conn, s *testSender) {
		<-s.ready
		s.elsewhere.Store(&quic.ReceivedElsewhere{Last: time.Now().Add(time.Hour)})
		require.NoError(t, from.Probe(testContext(t)))
		require.Eventually(t, func() bool { return time.Until(from.LastReceived()) > time.Minute },
			time.Minute, time.Millisecond)
	})
}

// Key updates must come about even if quic-go has nothing to send.
func TestHookedKeyUpdate(t *testing.T) {
	hooked(t, func(t *testing.T, from, to Conn, s *testSender) {
		<-s.ready
		for range 3 {
			before := s.word.Load() >> 62
			s.due.Store(true)
			for n := 0; s.word.Load()>>62 == before; n++ {
				require.Less(t, n, 10, "acknowledgments that made no update")
				pn := s.send(t, []byte{0x01}) // PING
				s.eventually(t, func() bool { return s.acked[pn] })
			}
			s.send(t, append(append([]byte{0x30}, from.DatagramPrefix()...), "sealed anew"...))
			got, err := to.ReceiveDatagram(testContext(t))
			require.NoError(t, err)
			require.Equal(t, "sealed anew", string(got))
		}
	})
}
