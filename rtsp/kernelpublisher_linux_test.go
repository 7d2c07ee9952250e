package rtsp

import (
	"net"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/fastpath"
	"sluice/lab"
)

// picture is a packet of the publisher's video that the library of its client does not send.
func (w *kernelWorld) picture(sequence uint32) *rtp.Packet {
	w.t.Helper()
	s := w.published()
	s.mu.Lock()
	defer s.mu.Unlock()
	return &rtp.Packet{Payload: framePayload(sequence), Header: rtp.Header{
		Version: 2, PayloadType: 96, SSRC: s.lead.ssrc, SequenceNumber: uint16(sequence), Timestamp: 3600 * sequence,
	}}
}

// published returns the stream of the publisher.
func (w *kernelWorld) published() *stream {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(w.t, w.streams, 1)
	for _, s := range w.streams {
		return s
	}
	return nil
}

func (w *kernelWorld) count(reason string) uint64 {
	w.t.Helper()
	counts, err := w.fast.Counts()
	require.NoError(w.t, err)
	return counts[reason]
}

// TestKernelPause checks that the kernel sends nothing that a publisher sends between PAUSE and RECORD.
func TestKernelPause(t *testing.T) {
	t.Parallel()
	w := newKernelWorld(t, lab.Topology{Subscribers: 1})
	h := w.lab.Publisher
	c := &sender{t: t, client: w.client(h), desc: broadcast()}
	var ports []net.PacketConn
	listen := c.client.ListenPacket
	c.client.ListenPacket = func(network, address string) (net.PacketConn, error) {
		p, err := listen(network, address)
		ports = append(ports, p)
		return p, err
	}
	require.NoError(t, c.client.StartRecording(w.url(h, false).String(), c.desc))
	t.Cleanup(c.client.Close)
	w.play(w.lab.Subscribers[0], false)
	w.untilKernel(c, 1)
	_, err := c.client.Pause()
	require.NoError(t, err)
	forwarded := w.count("rtp_forwarded")
	relay := &net.UDPAddr{IP: w.lab.Relay.Facing(h).IPv4.Addr().AsSlice(), Port: 8000}
	for i := range uint32(20) {
		p, err := w.picture(c.number + 1 + i).Marshal()
		require.NoError(t, err)
		_, err = ports[0].WriteTo(p, relay)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return w.count("rtp_paused") == 20 }, patient, 5*time.Millisecond)
	require.Equal(t, forwarded, w.count("rtp_forwarded"))
}

// TestKernelResting checks that a packet which was on its way when the publisher paused does not end that.
func TestKernelResting(t *testing.T) {
	t.Parallel()
	w := newKernelWorld(t, lab.Topology{Subscribers: 1})
	pub := w.publish(false)
	w.play(w.lab.Subscribers[0], false)
	w.untilKernel(pub, 1)
	s := w.published()
	s.rest(true)
	w.frame(pub)
	for _, m := range s.medias {
		require.True(t, m.paused)
	}
	s.rest(false)
	w.untilKernel(pub, 1)
}

// TestKernelPlace has a player take the place of one that has left, while a packet that the kernel has sent to the old
// player waits in user space: the new one gets it as well.
func TestKernelPlace(t *testing.T) {
	t.Parallel()
	for wait := 200 * time.Millisecond; !takesPlace(t, wait); wait *= 4 {
		require.Less(t, wait, patient, "the place is not free")
	}
}

// takesPlace gives the place some time to become free. It returns false if the new player has got another one, so that
// nothing was shown.
func takesPlace(t *testing.T, wait time.Duration) bool {
	w := newKernelWorld(t, lab.Topology{Subscribers: 2})
	pub := w.publish(false)
	a := w.play(w.lab.Subscribers[0], false)
	w.untilKernel(pub, 1)
	s := w.published()
	before := s.place()
	require.NotEqual(t, -1, before)
	forwarded := w.count("rtp_forwarded")
	pub.number++ // is lost, so user space waits for it when the next one has come
	pub.frames(1)
	require.Eventually(t, func() bool { return w.count("rtp_forwarded") == forwarded+2 }, patient, 5*time.Millisecond)
	a.client.Close()
	eventually(t, "the player has left", func() bool { return counted(t, w.Server, "players") == 0 })
	time.Sleep(wait)
	w.play(w.lab.Subscribers[1], false)
	eventually(t, "the player is live", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for p := range s.players {
			return p.live
		}
		return false
	})
	sent, byKernel := counted(t, w.Server, "sent_packets_total"), w.byKernel()
	now := time.Now().Add(2 * handOverAfter)
	require.True(t, s.write(s.lead.Media, w.picture(pub.number), now, now))
	require.Equal(t, sent+1, counted(t, w.Server, "sent_packets_total"))
	require.Equal(t, byKernel, w.byKernel(), "user space has sent it")
	return s.place() == before
}

// place returns the place of the only player in the kernel's list of the lead's, or -1 if it has none.
func (s *stream) place() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.players {
		for place := range fastpath.MaxPlayers {
			var only fastpath.RTPServed
			only[place/64] = 1 << (place % 64)
			if k := p.outlets[s.lead].kernel; k != nil && only.Has(k.RTPPlayer) {
				return place
			}
		}
	}
	return -1
}
