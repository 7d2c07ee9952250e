package fastpath

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
)

// TestRTPJumps has the publisher's sequence numbers jump back, and back again, before user space has handled a packet.
// So the kernel numbers packets from one that was handled before the jumps, and user space does not. Each player gets
// each packet that user space handles once.
func TestRTPJumps(t *testing.T) {
	parts := []struct{ first, last int }{{1, 100}, {41, 200}, {151, 300}}
	for name, tt := range map[string]struct {
		same bool // a timestamp belongs to a sequence number: the publisher sends the same again
		lost bool // between the kernel and the socket, before the first jump
	}{
		"other packets": {},
		"other packets, of which some do not come": {lost: true},
		"the same packets again":                   {same: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{})
			u := &rtpUserSpace{rtpRig: r, sent: make(map[uint32][]byte), handled: make(map[uint32]bool)}
			for range 3 {
				u.add(r.join(r.lab.Subscribers[0]))
			}
			number := uint32(0)
			for i, part := range parts {
				for sequence := part.first; sequence <= part.last; sequence++ {
					number++
					p := rtpPacket(sequence, binary.BigEndian.AppendUint32(nil, number))
					if !tt.same {
						binary.BigEndian.PutUint32(p[4:], rtpTimestamp(int(number)))
					}
					u.sent[number] = p
					u.arrive(number)
					u.receive()
					if tt.lost && i == 0 && sequence > 80 {
						u.queue = u.queue[:len(u.queue)-1]
					}
				}
			}
			u.handleAll()
			u.receive()
			u.check()
			require.EqualValues(t, 300*3, r.counts()["copy_sent"], "the kernel was never behind")
		})
	}
}

// handleAll handles the packets of the queue, whatever numbers they have.
func (u *rtpUserSpace) handleAll() {
	for _, number := range u.queue {
		u.handled[number] = true
		served := u.take(u.sent[number])
		for _, o := range u.live {
			if !served.Has(o.RTPPlayer) {
				o.got[number]++
			}
		}
	}
	u.queue = nil
}
