package fastpath

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf"
	"sluice/lab"
)

// slotRig is a media with a player, and the slot of a packet.
func slotRig(t *testing.T, packet []byte) (*rtpRig, *rtpPlayer, *bpf.RTPSlot) {
	r := newRTPRig(t, lab.Topology{Subscribers: 1}, false, Settings{})
	p := r.join(r.lab.Subscribers[0])
	p.Forward(true)
	return r, p, &r.media.shared.Slots[int(packet[2])<<8|int(packet[3])]
}

// TestRTPGivenBack has a worker about to send a packet when user space takes it. The worker cannot send, so user space
// does.
func TestRTPGivenBack(t *testing.T) {
	packet := rtpPacket(1, "payload")
	r, p, slot := slotRig(t, packet)
	p.Forward(false)
	r.run(packet)
	bit := uint64(1) << p.position
	atomic.OrUint64(&slot.Players[0], bit) // by the worker
	atomic.AddUint32(&slot.Users, 1)
	served := make(chan RTPServed)
	go func() { served <- r.take(packet) }()
	for atomic.LoadUint64(&slot.Key) != uint64(bpf.RTPRtpMarkRTP_TAKING) || atomic.LoadUint64(&slot.Players[1]) == 0 {
		runtime.Gosched() // until it has set all bits
	}
	atomic.AndUint64(&slot.Players[0], ^bit)
	atomic.AddUint32(&slot.Users, ^uint32(0))
	got := <-served
	require.False(t, got.Has(p.RTPPlayer))
	require.Equal(t, map[string]uint64{"rtp_old": 1}, r.counted(func() { r.run(packet) }), "nobody else sends it")
}

// TestRTPLateRun has a run that stands still while 1024 packets pass: the slot that it uses does not become another
// packet's, whose bits it would set. User space sends that packet.
func TestRTPLateRun(t *testing.T) {
	packet := rtpPacket(1, "payload")
	r, p, slot := slotRig(t, packet)
	atomic.AddUint32(&slot.Users, 1)
	require.Equal(t, map[string]uint64{"rtp_claimed": 1}, r.counted(func() { r.run(packet) }))
	require.EqualValues(t, 1, slot.Users)
	atomic.OrUint64(&slot.Players[0], uint64(1)<<p.position)
	atomic.AddUint32(&slot.Users, ^uint32(0))
	require.Zero(t, r.take(packet))

	r.publish(rtpPacket(2, "payload"))
	require.Equal(t, p.copyOf(rtpPacket(2, "payload")), r.receive(p))
	require.Zero(t, r.media.shared.Slots[2].Users)
}
