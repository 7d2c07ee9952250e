package rtsp

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/lab"
)

// keep keeps an RTP packet as it has come, while the library puts them in order and leaves duplicates out.
func (c *receiver) keep(datagram []byte) []byte {
	var p rtp.Packet
	kinds := map[uint8]description.MediaType{96: description.MediaTypeVideo, 97: description.MediaTypeAudio}
	if p.Unmarshal(bytes.Clone(datagram)) == nil && kinds[p.PayloadType] != "" { // else it is RTCP
		c.mu.Lock()
		defer c.mu.Unlock()
		c.packets[kinds[p.PayloadType]] = append(c.packets[kinds[p.PayloadType]], &p)
	}
	return datagram
}

// playRaw returns a player that keeps all that arrives.
func (w *kernelWorld) playRaw(h *lab.Host) *receiver {
	w.t.Helper()
	c := &receiver{t: w.t, client: w.client(h)}
	listen := c.client.ListenPacket
	c.client.ListenPacket = func(network, address string) (net.PacketConn, error) {
		p, err := listen(network, address)
		if err != nil {
			return nil, err
		}
		return &tap{p.(*net.UDPConn), nil, c.keep}, nil
	}
	return c.play(w.url(h, false), false)
}

// TestKernelConditions has the publisher's link lose, reorder and duplicate packets. Each player gets each packet once
// that the server has got, with the numbers and times that it would have without that, with the kernel and without.
// make test has all of it at once, with the kernel.
func TestKernelConditions(t *testing.T) {
	t.Parallel()
	all := lab.Conditions{Loss: 0.03, Reorder: 0.05, Duplicate: 0.1, Delay: time.Millisecond}
	for name, c := range map[string]struct {
		uplink lab.Conditions
		off    bool
	}{
		"loss":        {uplink: lab.Conditions{Loss: 0.03}},
		"reordering":  {uplink: lab.Conditions{Reorder: 0.1, Delay: time.Millisecond}},
		"duplication": {uplink: lab.Conditions{Duplicate: 0.2}},
		"all":         {uplink: all},
		"all, off":    {uplink: all, off: true},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "all" {
				thorough.Only(t)
			}
			t.Parallel()
			w := newKernelWorld(t, lab.Topology{Subscribers: 2}, func(s *Config) {
				if c.off {
					s.FastPath = nil
				}
			})
			pub := w.publish(false)
			players := []*receiver{w.playRaw(w.lab.Subscribers[0]), w.playRaw(w.lab.Subscribers[1])}
			if c.off {
				w.frame(pub)
			} else {
				w.untilKernel(pub, len(players))
			}
			up := w.lab.Publisher.Facing(w.lab.Relay).Link
			require.NoError(t, up.Set(lab.FromHost, c.uplink))
			w.manyFrames(pub, 300)
			require.NoError(t, up.Set(lab.FromHost, lab.Conditions{Delay: c.uplink.Delay}))
			w.manyFrames(pub, 100) // user space waits for missing packets until so many have come
			for _, p := range players {
				w.gets(p, pub.number)
			}
			require.Equal(t, c.off, w.byKernel() == 0)
			lost := 2*int(pub.number) - int(counted(t, w.Server, "received_packets_total"))
			require.True(t, lost > 0 || c.uplink.Loss == 0)
		})
	}
}

// manyFrames sends frames, so that few packets wait in the server's socket.
func (w *kernelWorld) manyFrames(pub *sender, n int) {
	w.t.Helper()
	const behind = 80 // more than the library waits for a packet that is missing
	for range n {
		pub.frames(1)
		eventually(w.t, "the server has nearly all", func() bool {
			known := counted(w.t, w.Server, "received_packets_total") + counted(w.t, w.Server, "lost_packets_total")
			return int(known) > 2*(int(pub.number)-behind)
		})
	}
}

// gets waits until the server knows of all packets, and a player has those that the server has got, and checks them.
func (w *kernelWorld) gets(c *receiver, last uint32) {
	w.t.Helper()
	kinds := []description.MediaType{description.MediaTypeVideo, description.MediaTypeAudio}
	eventually(w.t, "all packets", func() bool {
		received := int(counted(w.t, w.Server, "received_packets_total"))
		if received+int(counted(w.t, w.Server, "lost_packets_total")) != 2*int(last) {
			return false // the kernel may have sent packets that the server has not counted yet
		}
		n := 0
		for _, m := range kinds {
			n += len(c.got(m))
		}
		return n == received
	})
	n := 0
	for i, m := range kinds {
		first := c.numbers(m)[1]
		require.Len(w.t, first, 1)
		for number, packets := range c.numbers(m) {
			require.Len(w.t, packets, 1, "%s %d", m, number)
			n++
			p := packets[0]
			require.Equal(w.t, framePayload(number), p.Payload)
			require.Equal(w.t, first[0].SSRC, p.SSRC)
			require.Equal(w.t, uint16(number-1), p.SequenceNumber-first[0].SequenceNumber)
			require.Equal(w.t, []uint32{3600, 1920}[i]*(number-1), p.Timestamp-first[0].Timestamp)
		}
	}
	require.EqualValues(w.t, counted(w.t, w.Server, "received_packets_total"), n)
}

// numbers returns the packets of a media by the numbers of their frames.
func (c *receiver) numbers(m description.MediaType) map[uint32][]*rtp.Packet {
	all := make(map[uint32][]*rtp.Packet)
	for _, p := range c.got(m) {
		number := binary.BigEndian.Uint32(p.Payload[2:])
		all[number] = append(all[number], p)
	}
	return all
}
