package fastpath

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtpframe"
	"sluice/lab"
)

// rtpUserSpace sends the packets to players that the kernel has not sent. It is behind by a queue of packets.
type rtpUserSpace struct {
	*rtpRig
	random  *rand.Rand
	sent    map[uint32][]byte // packets by number
	queue   []uint32          // of numbers
	handled map[uint32]bool
	last    []byte // the latest packet that was handled
	all     []*oncePlayer
	live    []*oncePlayer
}

// oncePlayer counts how often a player has got a packet, from either side.
type oncePlayer struct {
	*rtpPlayer
	got   map[uint32]int
	since int // packets that were handled before it came
	read  uint64
}

// TestRTPOnce has packets come late, twice, with another's number and not at all, with changes of players and of the
// SSRC between them, and user space behind. Each player gets each packet that user space handles once, from one side or
// the other.
func TestRTPOnce(t *testing.T) {
	for name, s := range map[string]Settings{
		"one run":      {},
		"with workers": {MaxCopies: 1, Workers: 2, chunk: 1, jobLifetime: time.Minute},
	} {
		t.Run(name, func(t *testing.T) { testRTPOnce(t, s) })
	}
}

func testRTPOnce(t *testing.T, s Settings) {
	r := newRTPRig(t, lab.Topology{Subscribers: 2}, false, s)
	u := &rtpUserSpace{rtpRig: r, random: rand.New(rand.NewPCG(1, 2)), sent: make(map[uint32][]byte)}
	u.handled = make(map[uint32]bool)
	for i := range 6 {
		u.add(r.join(r.lab.Subscribers[i%2]))
	}
	const first = 65536 - 700 // sequence numbers begin again at 0
	r.take(rtpPacket(first - 1))
	u.last = rtpPacket(first - 1)
	var late []uint32
	ssrc := byte(7)
	for i := uint32(first); i < first+1400; i++ {
		p := rtpPacket(int(i), binary.BigEndian.AppendUint32(nil, i))
		p[11] = ssrc
		u.sent[i] = p
		switch u.random.IntN(16) {
		case 0:
			continue // lost on the way to the relay
		case 1:
			late = append(late, i)
			continue
		case 2:
			u.run(p) // lost between the kernel and the socket
			continue
		case 3:
			u.arrive(i)
		case 4:
			u.one().Forward(u.random.IntN(4) > 0)
		case 5:
			if u.random.IntN(10) == 0 {
				u.exchange()
			}
		case 6:
			u.arrive(i)
			again := append([]byte(nil), p...)
			again[7]++ // another timestamp
			u.run(again)
		case 7:
			if u.random.IntN(6) == 0 {
				ssrc++
			}
		}
		u.arrive(i)
		if len(late) > 0 && u.random.IntN(3) == 0 {
			u.arrive(late[0])
			late = late[1:]
		}
		u.handle(u.random.IntN(min(len(u.queue), 5) + 1))
		u.receive()
	}
	u.handle(len(u.queue))
	u.receive()
	u.check()
	counts := r.counts()
	require.Greater(t, counts["copy_sent"], uint64(1000), "%v", counts)
	for _, why := range []string{"rtp_claimed", "rtp_old", "rtp_ssrc"} {
		require.NotZero(t, counts[why], "%v", counts)
	}
}

func (u *rtpUserSpace) add(p *rtpPlayer) {
	o := &oncePlayer{rtpPlayer: p, got: make(map[uint32]int), since: len(u.handled)}
	o.Forward(true)
	u.all, u.live = append(u.all, o), append(u.live, o)
}

func (u *rtpUserSpace) one() *oncePlayer { return u.live[u.random.IntN(len(u.live))] }

// exchange has another player take the place of one.
func (u *rtpUserSpace) exchange() {
	at := u.random.IntN(len(u.live))
	old := u.live[at]
	u.live = append(u.live[:at:at], u.live[at+1:]...)
	old.Leave()
	for len(u.media.leavingNow()) > 0 {
		awaitGracePeriod()
	}
	next := &rtpPlayer{path: old.path, conn: old.conn}
	next.path.SSRC += 0x1000
	next.RTPPlayer = u.media.Join(next.path, new(rtpframe.Flow))
	require.NotNil(u.t, next.RTPPlayer)
	u.add(next)
}

// leavingNow returns the players whose positions are not free yet.
func (m *RTPMedia) leavingNow() []*RTPPlayer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.leaving)
}

// arrive has a packet come to the kernel, and then to the socket.
func (u *rtpUserSpace) arrive(number uint32) {
	u.run(u.sent[number])
	u.queue = append(u.queue, number)
}

// handle handles the next packets of the queue. As a receiver of RTP does, it leaves out packets that have come before,
// or are older than the last one handled.
func (u *rtpUserSpace) handle(n int) {
	for _, number := range u.queue[:n] {
		p := u.sent[number]
		old := p[11] == u.last[11] && int16(binary.BigEndian.Uint16(p[2:])-binary.BigEndian.Uint16(u.last[2:])) <= 0
		if old || p[11] < u.last[11] {
			continue
		}
		u.last = p
		u.handled[number] = true
		served := u.take(p)
		for _, o := range u.live {
			if !served.Has(o.RTPPlayer) {
				o.got[number]++
			}
		}
	}
	u.queue = u.queue[n:]
}

// receive reads the packets that the kernel has sent.
func (u *rtpUserSpace) receive() {
	for _, o := range u.all {
		for n, _ := o.Sent(); o.read < n; o.read++ {
			c := u.rtpRig.receive(o.rtpPlayer)
			number := binary.BigEndian.Uint32(c[12:])
			require.Equal(u.t, o.copyOf(u.sent[number]), c)
			o.got[number]++
		}
	}
}

func (u *rtpUserSpace) check() {
	for _, o := range u.all {
		for number, n := range o.got {
			require.LessOrEqual(u.t, n, 1, "packet %d, handled: %v", number, u.handled[number])
		}
	}
	for _, o := range u.live {
		n := 0
		for number := range u.handled {
			n += o.got[number]
		}
		require.Equal(u.t, len(u.handled)-o.since, n)
	}
}

// TestRTPRaces has two CPUs run the program on the same packet while user space handles it.
func TestRTPRaces(t *testing.T) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{})
	for range 32 {
		r.join(r.lab.Subscribers[0]).Forward(true)
	}
	sent := func() (n uint64) {
		for _, p := range r.players {
			packets, _ := p.Sent()
			n += packets
		}
		return n
	}
	kernel := 0
	for i := 1; i <= 500; i++ {
		p := rtpPacket(i, "payload")
		before := sent()
		var running sync.WaitGroup
		for range 2 {
			running.Go(func() { r.run(p) })
		}
		for i%2 == 0 && sent() == before { // half of the packets are handled in the middle of a run
		}
		served := r.take(p)
		running.Wait()
		want := len(r.players)
		for _, p := range r.players {
			if !served.Has(p.RTPPlayer) {
				want--
			}
		}
		require.EqualValues(t, want, sent()-before)
		kernel += want
	}
	require.NotZero(t, kernel)
	require.Less(t, kernel, 500*len(r.players))
}
