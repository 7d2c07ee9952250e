package fastpath

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/lab"
)

// TestRTPJumps has the publisher's sequence numbers jump back, again and again, while user space is behind. So the
// kernel numbers packets from one that was handled before the jumps, and user space does not. Each player gets each
// packet that user space handles once.
func TestRTPJumps(t *testing.T) {
	for name, tt := range map[string]struct {
		same    bool // a timestamp belongs to a sequence number: the publisher sends the same again
		lost    bool // between the kernel and the socket, before the first jump
		between bool // user space handles some packets before the last one has come
	}{
		"other packets": {},
		"other packets, of which some do not come":                        {lost: true},
		"other packets, handled between":                                  {between: true},
		"other packets, handled between, of which some do not come":       {between: true, lost: true},
		"the same packets again":                                          {same: true},
		"the same packets again, handled between":                         {same: true, between: true},
		"the same packets again, handled between, of some that were lost": {same: true, between: true, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := &jumps{same: tt.same, want: make(map[uint32]int), u: &rtpUserSpace{
				rtpRig: newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{}),
				sent:   make(map[uint32][]byte), random: rand.New(rand.NewPCG(1, 2)),
			}}
			for range 3 {
				j.u.add(j.u.join(j.u.lab.Subscribers[0]))
			}
			if !tt.between {
				j.run(func(int) {}, tt.lost)
				require.EqualValues(t, 400*3, j.u.counts()["copy_sent"], "the kernel was never behind")
				return
			}
			runs := 4
			if thorough.Set() {
				runs = 12
			}
			for range runs { // it handles few packets at a time, or many
				often := 1 + j.u.random.IntN(60)
				j.run(func(waiting int) {
					if j.u.random.IntN(often) == 0 {
						j.handle(j.u.random.IntN(min(waiting, 2*often) + 1))
					}
				}, tt.lost)
			}
			require.NotZero(t, j.u.counts()["rtp_claimed"])
		})
	}
}

// jumps is a publisher whose sequence numbers jump back.
type jumps struct {
	u    *rtpUserSpace
	same bool
	ssrc byte
	sent uint32         // packets so far
	want map[uint32]int // how often user space has handled a packet
}

// run has the packets of another SSRC come, and calls handle with the number of those that user space has not handled.
func (j *jumps) run(handle func(waiting int), lost bool) {
	j.ssrc++
	j.u.take(j.packet(0, 0))
	first := j.sent
	for i, part := range []struct{ first, last int }{{1, 100}, {41, 200}, {151, 300}, {141, 400}} {
		for sequence := part.first; sequence <= part.last; sequence++ {
			j.sent++
			number := j.sent
			if j.same {
				number = first + uint32(sequence)
			}
			j.u.sent[number] = j.packet(sequence, number)
			j.u.arrive(number)
			j.u.receive()
			if lost && i == 0 && sequence > 80 {
				j.u.queue = j.u.queue[:len(j.u.queue)-1]
			}
			handle(len(j.u.queue))
		}
	}
	j.handle(len(j.u.queue))
	j.u.receive()
	for _, o := range j.u.live {
		for number, n := range o.got {
			require.LessOrEqual(j.u.t, n, max(j.want[number], 1), "packet %d", number)
		}
		for number, n := range j.want {
			require.Equal(j.u.t, n, o.got[number], "packet %d", number)
		}
	}
}

func (j *jumps) packet(sequence int, number uint32) []byte {
	p := rtpPacket(sequence, binary.BigEndian.AppendUint32(nil, number))
	p[11] = j.ssrc
	if !j.same {
		binary.BigEndian.PutUint32(p[4:], rtpTimestamp(int(number)))
	}
	return p
}

// handle handles the next packets of the queue, whatever sequence numbers they have.
func (j *jumps) handle(n int) {
	for _, number := range j.u.queue[:n] {
		j.want[number]++
		served := j.u.take(j.u.sent[number])
		for _, o := range j.u.live {
			if !served.Has(o.RTPPlayer) {
				o.got[number]++
			}
		}
	}
	j.u.queue = j.u.queue[n:]
}
