package media

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/internal/packet"
	"sluice/track"
)

// script reads the input of a fuzzer.
type script struct{ b []byte }

func (s *script) next(n int) int {
	if len(s.b) == 0 {
		return 0
	}
	x := int(s.b[0])
	s.b = s.b[1:]
	return x % n
}

func (s *script) wide() int64 {
	var x [8]byte
	s.b = s.b[copy(x[:], s.b):]
	return int64(binary.LittleEndian.Uint64(x[:]) >> 2)
}

// fuzzed is a world in which a script decides what happens.
type fuzzed struct {
	*world
	script
	subs    []*Subscription
	logs    []*track.Log
	streams []*Stream
	ended   map[*Stream]int
	phases  int
	sent    []int64
}

// FuzzSender lets peers, owners and quic-go do anything in any order.
func FuzzSender(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 40, 2, 3, 0, 4, 5, 6, 1, 0, 200, 2, 3, 3, 9, 0})
	f.Add([]byte{0, 1, 5, 0, 0, 2, 1, 0, 255, 1, 1, 255, 2, 10, 1, 3, 2, 7, 50, 0, 2, 3, 1, 12, 12, 12, 2})
	f.Add([]byte{0, 0, 0, 1, 0, 90, 2, 6, 2, 11, 2, 1, 0, 90, 2, 13, 0, 2, 5, 0, 14, 1, 2, 15, 3, 2, 3, 3, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		z := &fuzzed{script: script{b}, ended: make(map[*Stream]int)}
		z.world = newWorld(t, func(c *worldConfig) {
			c.params.MaxData, c.params.MaxStreamDataUni, c.params.MaxStreamsUni = 20_000, 5_000, 3
			c.sender.DropPolicy = new(PriorityDrop)
		})
		for len(z.b) > 0 && !z.s.closed {
			z.act()
			z.check()
		}
		z.drain()
	})
}

func (z *fuzzed) act() {
	switch z.next(17) {
	case 0:
		z.openStream()
	case 1:
		if len(z.logs) > 0 {
			l := z.logs[z.next(len(z.logs))]
			if state, _ := l.State(); state == track.Open {
				l.Append(testBytes(l.End(), 20*z.next(256)))
			}
		}
	case 2:
		z.transmit()
	case 3:
		z.clock.advance(time.Duration(1+z.next(100)) * ms)
		z.ackSome()
	case 4:
		z.sleep(time.Duration(z.next(256)) * 10 * ms)
		z.transmit()
	case 5:
		if len(z.logs) > 0 {
			z.logs[z.next(len(z.logs))].Finish()
		}
	case 6:
		z.s.MaxData(z.wide())
	case 7:
		z.s.MaxStreamData(int64(z.next(40)), z.wide())
	case 8:
		z.s.MaxStreams(int64(z.next(60)))
	case 9:
		z.s.StopSending(int64(z.next(40)), uint64(z.wide()))
	case 10:
		if len(z.streams) > 0 {
			z.streams[z.next(len(z.streams))].Reset(1)
		}
	case 11:
		z.path(fmt.Sprintf("192.0.2.%d:%d", z.next(4), 1000+z.next(2)), 1200+z.next(250))
	case 12:
		if z.phases < 200 {
			z.phases++
			secret := []byte{31: byte(z.phases)}
			z.peer.opener.Update(secret)
			z.s.Keys(uint64(z.phases), z.peer.suite, packet.Version1, nil, secret)
		}
	case 13:
		z.useSubscription()
	case 14:
		z.s.NextPacketNumber()
		if id, ok := z.s.NextUniStream(); ok && id < 0 {
			z.t.Fatal("stream id", id)
		}
		z.s.ReturnData(z.s.TakeData(int64(z.next(256)), z.next(2) == 0))
	case 15:
		if len(z.logs) > 0 {
			l := z.logs[z.next(len(z.logs))]
			if code := z.next(10); code == 0 {
				l.Cut()
			} else {
				l.Reset(uint64(code))
			}
		}
	case 16:
		z.ackNonsense()
	}
}

func (z *fuzzed) subscription() *Subscription {
	if len(z.subs) == 0 || z.next(4) == 0 {
		z.subs = append(z.subs, z.subscribe(func(c *SubscriptionConfig) {
			c.Priority, c.Descending = uint8(z.next(3)), z.next(2) == 0
			c.Timeouts.Subgroup = time.Duration(z.next(3)) * 200 * ms
		}))
	}
	return z.subs[z.next(len(z.subs))]
}

func (z *fuzzed) openStream() {
	if len(z.logs) == 0 || z.next(2) == 0 {
		z.logs = append(z.logs, newTestLog(int64(z.next(100)), 10*z.next(256)))
	}
	l := z.logs[z.next(len(z.logs))]
	var st *Stream
	st, err := z.subscription().OpenStream(StreamConfig{
		Prefix: make([]byte, z.next(40)), Log: l, Start: l.First.From,
		Group: uint64(z.next(5)), Subgroup: uint64(z.next(3)), Priority: uint8(z.next(3)),
		OnDone: func(Result) { z.ended[st]++ },
	})
	if err == nil {
		z.streams = append(z.streams, st)
	}
}

func (z *fuzzed) useSubscription() {
	sub := z.subscription()
	switch z.next(5) {
	case 0:
		_ = sub.SendDatagram(Datagram{
			Payload: make([]byte, 6*z.next(256)), Object: uint64(z.next(10)), Received: z.clock.Wall(),
		})
	case 1:
		sub.SetOrder(uint8(z.next(3)), false)
	case 2:
		sub.SetTimeouts(Timeouts{Subgroup: time.Duration(z.next(256)) * ms})
	case 3:
		sub.Close(3)
	case 4:
		sub.Finish(4)
	}
}

func (z *fuzzed) transmit() {
	for _, p := range z.run() {
		z.sent = append(z.sent, p.number)
	}
}

// ackSome acknowledges what the script picks of the last packets.
func (z *fuzzed) ackSome() {
	var numbers []int64
	for i, n := range z.sent {
		if len(z.sent)-i < 100 && z.next(3) > 0 {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) > 0 {
		_, err := z.ackRanges(rangesOf(numbers)...)
		require.NoError(z.t, err)
	}
}

// ackNonsense acknowledges ranges that quic-go would refuse.
func (z *fuzzed) ackNonsense() {
	var ranges []quic.AckRange
	for range z.next(4) {
		ranges = append(ranges, quic.AckRange{Smallest: z.wide(), Largest: z.wide()})
	}
	z.s.ledger.skipAt = 1 << 60 // or the connection would end here
	_, _ = z.ackRanges(ranges...)
}

// check checks what holds whenever the lock is not held.
func (z *fuzzed) check() {
	inFlight := 0
	for n := z.s.ledger.low; n < z.s.state.NextPN.Load()&claim.NumberMask; n++ {
		if len(z.s.ledger.records) == 0 {
			break
		}
		if e, ok := z.s.ledger.records.Read(n); ok && e.Live() && !e.Uncounted() {
			inFlight += e.Size()
		}
	}
	require.Equal(z.t, inFlight, int(z.s.state.InFlight.Load()), "in flight")
	require.GreaterOrEqual(z.t, z.s.DataAvailable(), int64(0))
	parked := 0
	for i, st := range z.s.streams.all {
		require.Equal(z.t, i, st.slot)
		if st.park != notParked {
			parked++
		}
		for _, l := range st.lost {
			for _, a := range st.acked {
				require.False(z.t, l.from < a.to && a.from < l.to, "acknowledged and lost")
			}
		}
	}
	require.Equal(z.t, parked, z.s.credit.parked)
	for p, list := range z.s.credit.waiting {
		for i, st := range list {
			require.Equal(z.t, []any{parking(p), i}, []any{st.park, st.parkedAt})
		}
	}
	for _, n := range z.ended {
		require.Equal(z.t, 1, n)
	}
}

// drain ends all logs, gives all credit and acknowledges everything. Then all streams must end.
func (z *fuzzed) drain() {
	for _, l := range z.logs {
		l.Finish()
	}
	z.s.MaxData(1 << 40)
	z.s.MaxStreams(1 << 20)
	for range 400 {
		z.run()
		for _, st := range z.streams {
			if st.opened {
				z.s.MaxStreamData(st.id(), 1<<40)
			}
		}
		if r := z.peer.ranges(); len(r) > 0 {
			z.clock.advance(ms)
			_, err := z.ackRanges(r...)
			require.NoError(z.t, err)
		}
		if z.sleep(time.Hour); z.s.Stats().Open == 0 && z.s.ready.empty() {
			break
		}
	}
	z.sleep(time.Hour)
	z.check()
	require.Zero(z.t, z.s.Stats().Open, "%+v", z.s.Stats())
	require.Len(z.t, z.ended, len(z.streams))
	for _, l := range z.logs {
		require.False(z.t, l.Pinned())
	}
}
