package media

import (
	"crypto/tls"
	"fmt"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/track"
)

// fakeForwarder is a forwarder with one connection. Like the kernel it opens streams, and sends on them before user
// space knows of it.
type fakeForwarder struct {
	flags   uint8 // of records of datagrams
	t       testing.TB
	clock   clock.Clock
	state   *claim.ConnState
	abandon func(*claim.StreamState)
	ring    claim.Ledger
	path    claim.Path
	session claim.Session
	keys    []claim.PacketKeys // for writing
	reading []claim.PacketKeys
	ids     []string
	opened  *claim.StreamState // what OpenStream returns
	adopted bool               // which OpenStream returns too
	freed   []*claim.StreamState
	closed  bool
	closing func() // is called by Close
}

func (f *fakeForwarder) Connect(abandon func(*claim.StreamState)) (claim.ForwarderConn, *claim.ConnState) {
	f.state, f.abandon = new(claim.ConnState), abandon
	return f, f.state
}

func (f *fakeForwarder) Ledger() []claim.Record {
	f.ring = make(claim.Ledger, 256)
	return f.ring
}

func (f *fakeForwarder) ConnectionID(id []byte, usable bool)     { f.ids = append(f.ids, string(id)) }
func (f *fakeForwarder) Received(int64)                          {}
func (f *fakeForwarder) Acknowledged()                           {}
func (f *fakeForwarder) ReadKeys(_ uint64, k *claim.PacketKeys)  { f.reading = append(f.reading, *k) }
func (f *fakeForwarder) WriteKeys(_ uint64, k *claim.PacketKeys) { f.keys = append(f.keys, *k) }
func (f *fakeForwarder) SetSession(s claim.Session)              { f.session = s }
func (f *fakeForwarder) SetPath(p claim.Path)                    { f.path = p }
func (f *fakeForwarder) CloseStream(s *claim.StreamState)        { f.freed = append(f.freed, s) }

func (f *fakeForwarder) Close() {
	f.closed = true
	if f.closing != nil {
		f.closing()
	}
}

func (f *fakeForwarder) OpenStream(*claim.PublisherStream) (*claim.StreamState, bool) {
	return f.opened, f.adopted
}

// open opens a stream whose prefix precedes log offset start.
func (f *fakeForwarder) open(prefix, start int64) *claim.StreamState {
	st := new(claim.StreamState)
	id, ok := f.state.TakeStream()
	require.True(f.t, ok)
	st.ID.Store(uint64(id))
	st.Next.Store(uint64(start))
	st.Delta.Store(uint64(prefix - start))
	st.Limit.Store(1 << 20)
	st.Phase.Store(claim.StreamOpen)
	f.opened, f.adopted = st, true
	return st
}

// send claims bytes up to log offset to, with those of the prefix before them, and returns the packet number.
func (f *fakeForwarder) send(st *claim.StreamState, prefix, to int64, fin bool) int64 {
	from, _ := st.Cursor()
	number, _, ok := f.state.Begin(f.ring)
	require.True(f.t, ok)
	require.True(f.t, st.Claim(from, to, fin))
	flags := uint8(claim.KindStream)
	if fin {
		flags |= claim.FlagFIN
	}
	n := prefix + to - from
	info := claim.NewInfo(uint32(st.ID.Load()/4), int(n), 40, flags)
	f.state.Commit(f.ring, number, f.clock.Now(), to+st.Shift()-n, info)
	return int64(number)
}

// datagram sends a datagram and returns the packet number.
func (f *fakeForwarder) datagram() int64 {
	number, _, ok := f.state.Begin(f.ring)
	require.True(f.t, ok)
	f.state.Commit(f.ring, number, f.clock.Now(), 0, claim.NewInfo(0, 100, 40, claim.KindDatagram|f.flags))
	return int64(number)
}

// withForwarder is a world with a forwarder.
func withForwarder(t *testing.T, configure ...func(*worldConfig)) (*world, *fakeForwarder) {
	f := &fakeForwarder{t: t}
	w := newWorld(t, append(configure, func(c *worldConfig) {
		c.loop.Forwarder = f
		c.suite = tls.TLS_CHACHA20_POLY1305_SHA256
	})...)
	f.clock = w.clock
	w.s.SetSession(claim.Session{ErrorCode: func(code uint64) uint64 { return code + 1000 }})
	return w, f
}

const testPrefix = "forwarder's prefix"

// adopt opens a stream on a log as the relay does.
func (w *world) adopt(l *track.Log) (*Stream, func() []Result) {
	return w.stream(w.subscribe(), l, func(c *StreamConfig) {
		c.PublisherStream = &claim.PublisherStream{Prefix: []byte(testPrefix), Start: l.First.From}
	})
}

// asClient makes the sender's end of the connection the QUIC client.
func asClient(c *worldConfig) { c.sender.Client = true }

// TestManyConnectionIDs has a client retire connection IDs without end, while there is no conn.
func TestManyConnectionIDs(t *testing.T) {
	l := new(forwarderLink)
	for i := range 100 {
		l.connectionID(quic.ConnectionIDFromBytes(fmt.Appendf(nil, "retire%02d", i)), true)
	}
	require.Len(t, l.connIDs, maxConnIDs)
}

// TestForwarderIsFaster has the forwarder send all bytes between the sender's choice of a stream and its claim.
func TestForwarderIsFaster(t *testing.T) {
	w, f := withForwarder(t)
	prefix := int64(len(testPrefix))
	shared := f.open(prefix, 0)
	st, _ := w.adopt(newTestLog(0, 200))
	f.send(shared, prefix, 200, false)
	w.s.mu.Lock()
	reason := st.sendNew(w.clock.t, w.shard.batch)
	w.s.mu.release()
	w.shard.batch.Flush()
	require.Equal(t, none, reason)
	require.Empty(t, w.sock.packets)
}

func TestForwarderIsTold(t *testing.T) {
	for role, configure := range map[string]func(*worldConfig){"server": func(*worldConfig) {}, "client": asClient} {
		t.Run(role, func(t *testing.T) {
			w, f := withForwarder(t, configure)
			require.Equal(t, "192.0.2.1:4433", f.path.Remote.String())
			require.EqualValues(t, 1<<40, f.path.MaxStreamData)
			require.NotZero(t, f.state.MTU.Load())
			require.NotEmpty(t, f.ring)
			k, err := packet.Derive(tls.TLS_CHACHA20_POLY1305_SHA256, packet.Version1, testSecret)
			require.NoError(t, err)
			for _, keys := range [][]claim.PacketKeys{f.keys, f.reading} {
				require.Len(t, keys, 1)
				require.Equal(t, k.IV, keys[0].IV[:])
				require.Equal(t, k.HeaderProtection, keys[0].HeaderProtection[:])
			}
			w.s.ConnectionID(quic.ConnectionIDFromBytes([]byte("12345678")), true)
			require.Equal(t, []string{"12345678"}, f.ids)
			require.EqualValues(t, 5, f.state.NextPN.Load(), "numbers go on where quic-go was")
			require.EqualValues(t, map[string]uint64{"server": 3, "client": 2}[role], f.state.NextUni.Load())
		})
	}
}

// noRoom is a forwarder without room for the first connection.
type noRoom struct {
	*fakeForwarder
	asked int
}

func (f *noRoom) Connect(abandon func(*claim.StreamState)) (claim.ForwarderConn, *claim.ConnState) {
	if f.asked++; f.asked == 1 {
		return nil, nil
	}
	return f.fakeForwarder.Connect(abandon)
}

func (f *noRoom) Ledger() []claim.Record { return nil }

// A forwarder that had no room when the first keys came gets none of the connection's keys, and has no ledger for it.
// The media sender sends.
func TestForwarderIsAskedOnce(t *testing.T) {
	f := &noRoom{fakeForwarder: &fakeForwarder{t: t}}
	w := newWorld(t, asClient, func(c *worldConfig) {
		c.loop.Forwarder, c.suite = f, tls.TLS_CHACHA20_POLY1305_SHA256
	})
	require.Equal(t, 1, f.asked)
	require.Empty(t, f.keys)
	w.stream(w.subscribe(), newTestLog(0, 100))
	require.Len(t, w.run(), 1)
}

func TestOtherSuitesAreNotForwarded(t *testing.T) {
	f := &noRoom{fakeForwarder: &fakeForwarder{t: t}}
	w := newWorld(t, func(c *worldConfig) { c.loop.Forwarder = f })
	require.Nil(t, w.s.Forwarder())
	require.Zero(t, f.asked)
	w.stream(w.subscribe(), newTestLog(0, 100))
	require.Len(t, w.run(), 1)
}

// A stream that is adopted keeps its acknowledgments, losses and credit.
func TestAdopt(t *testing.T) {
	w, f := withForwarder(t)
	st := f.open(int64(len(testPrefix)), 10)
	acked := f.send(st, int64(len(testPrefix)), 110, false)
	f.send(st, 0, 210, false) // lost
	for to := int64(310); to <= 610; to += 100 {
		f.send(st, 0, to, false)
	}
	w.ackNumbers(acked, acked+2, acked+3, acked+4, acked+5)
	w.s.MaxStreamData(int64(st.ID.Load()), 1<<21)

	l := newTestLog(10, 700) // 100 bytes more than the forwarder has sent
	_, results := w.adopt(l)
	require.EqualValues(t, 1<<21, st.Limit.Load())
	packets := w.run()
	require.Len(t, packets, 2)
	lost, fresh := packets[0], packets[1]
	require.EqualValues(t, len(testPrefix)+100, lost.offset)
	require.Equal(t, testBytes(110, 100), lost.data)
	require.EqualValues(t, len(testPrefix)+600, fresh.offset)
	require.Equal(t, testBytes(610, 100), fresh.data)
	l.Finish()
	w.s.StopSending(999, 1) // no such stream
	w.run()
	w.ack(time10)
	want := Result{Outcome: Delivered, ID: int64(st.ID.Load()), Sent: 710, Arrived: 710}
	require.Equal(t, []Result{want}, results())
	require.Equal(t, []*claim.StreamState{st}, f.freed)
}

// A stream that the forwarder has opened for an earlier subscription of the subscriber is not adopted: its Track Alias
// means nothing to the subscriber any more.
func TestAdoptOfAnotherSubscription(t *testing.T) {
	w, f := withForwarder(t)
	st := f.open(int64(len(testPrefix)), 0)
	st.Alias.Store(1)
	f.send(st, int64(len(testPrefix)), 100, false)
	log := newTestLog(0, 200)
	w.stream(w.subscribe(), log, func(c *StreamConfig) {
		c.PublisherStream = &claim.PublisherStream{Prefix: []byte(testPrefix), TrackAlias: 2}
	})
	var own []byte
	for _, p := range w.run() {
		if len(p.data) > 0 {
			require.NotEqual(t, int64(st.ID.Load()), p.id)
			own = append(own, p.data...)
		}
	}
	require.Contains(t, string(own), string(testBytes(0, 200)))
	require.Equal(t, st.ID.Load(), w.peer.lastReset[0])
}

func streamData(packets []*wirePacket) (all []byte) {
	for _, p := range packets {
		all = append(all, p.data...)
	}
	return all
}

func TestAdoptStopped(t *testing.T) {
	w, f := withForwarder(t)
	st := f.open(int64(len(testPrefix)), 0)
	f.send(st, int64(len(testPrefix)), 100, false)
	w.s.StopSending(int64(st.ID.Load()), 7)
	_, results := w.adopt(newTestLog(0, 200))
	w.run()
	require.Equal(t, []uint64{st.ID.Load(), 7, uint64(len(testPrefix)) + 100}, w.peer.lastReset)
	require.Equal(t, Stopped, results()[0].Outcome)
}

// With more streams than can be kept, the content of the others is sent again.
func TestMaxUnadopted(t *testing.T) {
	w, f := withForwarder(t)
	f.state.NextUni.Store(f.state.NextUni.Load() + 4*maxUnadopted)
	for n := range uint32(maxUnadopted) {
		require.NotNil(t, w.s.streams.adoption.find(n))
	}
	st := f.open(int64(len(testPrefix)), 0)
	w.ackNumbers(f.send(st, int64(len(testPrefix)), 100, true))
	l := newTestLog(0, 100)
	l.Finish()
	_, results := w.adopt(l)
	require.Equal(t, testPrefix+string(testBytes(0, 100)), string(streamData(w.run())))
	w.ack(time10)
	require.Equal(t, Delivered, results()[0].Outcome)

	// Not so for streams that were opened later.
	st = f.open(int64(len(testPrefix)), 0)
	f.send(st, int64(len(testPrefix)), 100, false)
	w.adopt(newTestLog(0, 150))
	require.Equal(t, string(testBytes(100, 50)), string(streamData(w.run())))
}

// The forwarder may be sending while the connection ends, and may use its memory again as soon as it is closed. quic-go
// gets numbers that the forwarder has not used.
func TestNumbersAfterForwarderClose(t *testing.T) {
	w, f := withForwarder(t)
	used := map[int64]bool{f.datagram(): true}
	f.closing = func() {
		if number, _, ok := f.state.Begin(f.ring); ok {
			used[int64(number)] = true
		}
		*f.state = claim.ConnState{}
	}
	w.s.Closed(nil)
	require.False(t, used[w.s.NextPacketNumber()], "a packet number is used twice")
	require.EqualValues(t, 7, w.s.NextPacketNumber())
}

// A peer that acknowledges all packet numbers is found although only the forwarder sends.
func TestOptimisticAckOfForwarder(t *testing.T) {
	for name, onStream := range map[string]bool{"stream": true, "datagrams": false} {
		t.Run(name, func(t *testing.T) {
			w, f := withForwarder(t)
			send := func() { f.datagram() }
			if onStream {
				st := f.open(int64(len(testPrefix)), 0)
				st.Limit.Store(1 << 40)
				f.send(st, int64(len(testPrefix)), 100, false)
				log := newTestLog(0, 100)
				w.adopt(log)
				send = func() {
					f.send(st, 0, log.End()+10, false)
					log.Append(testBytes(log.End(), 10))
				}
			}
			var err error
			for i := 0; err == nil; i++ {
				require.Less(t, i, 10_000, "the peer was not found")
				send()
				require.Empty(t, w.run(), "only the forwarder sends")
				w.clock.advance(ms)
				_, err = w.ackRanges(quic.AckRange{Smallest: 5, Largest: w.s.PeekPacketNumber() - 1})
			}
			var te *quic.TransportError
			require.ErrorAs(t, err, &te)
			require.Equal(t, quic.ProtocolViolation, te.ErrorCode)
		})
	}
}
