package rtsp

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/ntp"
	"github.com/pion/rtcp"
	"github.com/stretchr/testify/require"

	"sluice/lab"
)

// told is a sender report to a player about a media.
type told struct {
	frame           uint32 // whose time the report tells
	at              time.Time
	packets, octets uint32
}

// told returns the player's sender reports about a media so far.
func (c *receiver) told(m description.MediaType) (all []told) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.reports {
		for _, p := range c.packets[m] {
			if p.SSRC == r.SSRC && p.Timestamp == r.RTPTime {
				frame := binary.BigEndian.Uint32(p.Payload[2:])
				all = append(all, told{frame, ntp.Decode(r.NTPTime), r.PacketCount, r.OctetCount})
			}
		}
	}
	return all
}

// untilTold sends frames, with reports to players that are always due, until the newest report about a media is wanted.
func (w *kernelWorld) untilTold(pub *sender, sub *receiver, m description.MediaType, wanted func(told) bool) told {
	w.t.Helper()
	var newest told
	require.Eventually(w.t, func() bool {
		s := w.published()
		s.mu.Lock()
		for p := range s.players {
			for _, o := range p.outlets {
				for _, r := range o.reports {
					r.last = time.Time{}
				}
			}
		}
		s.mu.Unlock()
		w.frame(pub)
		if all := sub.told(m); len(all) > 0 {
			newest = all[len(all)-1]
		}
		return newest.frame > 0 && wanted(newest)
	}, patient, 5*time.Millisecond, "a report about %s", m)
	return newest
}

// TestKernelReports checks what sender reports tell a player: all that it was sent, by user space and by the kernel,
// and the times of frames. They are times of arrival, which go on with the timestamps, until the publisher's own
// reports tell other times, of sound and of pictures.
func TestKernelReports(t *testing.T) {
	t.Parallel()
	w := newKernelWorld(t, lab.Topology{Subscribers: 1})
	h := w.lab.Publisher
	pub := &sender{t: t, client: w.client(h), desc: broadcast()}
	pub.client.DisableRTCPSenderReports = true // the test sends them
	require.NoError(t, pub.client.StartRecording(w.url(h, false).String(), pub.desc))
	t.Cleanup(pub.client.Close)
	sub := w.play(w.lab.Subscribers[0], false)
	w.untilKernel(pub, 1)

	const period = 40 * time.Millisecond // of frames
	check := func(r told, number uint32, at time.Time) {
		t.Helper()
		require.WithinDuration(t, at.Add(time.Duration(int32(r.frame-number))*period), r.at, time.Microsecond)
		require.Equal(t, r.frame, r.packets, "a packet for each frame")
		require.Equal(t, r.frame*uint32(len(framePayload(0))), r.octets)
	}
	for _, m := range pub.desc.Medias {
		first := w.untilTold(pub, sub, m.Type, func(told) bool { return true })
		later := w.untilTold(pub, sub, m.Type, func(r told) bool { return r.frame > first.frame+5 })
		check(later, first.frame, first.at)
		require.WithinDuration(t, time.Now(), later.at, time.Hour)
	}

	epoch := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	number := pub.number
	for i, m := range pub.desc.Medias {
		s := w.published()
		s.mu.Lock()
		ssrc := s.mediaOf(m.Type).ssrc
		s.mu.Unlock()
		require.NoError(t, pub.client.WritePacketRTCP(m, &rtcp.SenderReport{
			SSRC: ssrc, NTPTime: ntp.Encode(epoch.AddDate(0, 0, i)), RTPTime: []uint32{3600, 1920}[i] * number,
		}))
	}
	for i, m := range pub.desc.Medias {
		check(w.untilTold(pub, sub, m.Type, func(r told) bool { return r.at.Year() == epoch.Year() }),
			number, epoch.AddDate(0, 0, i))
	}
	process := int(w.cfg.Relay.Guests()[1].Process)
	require.Greater(t, 2*int(pub.number), process, "the kernel has sent some of what was counted")
}

// mediaOf returns the media of a type; s.mu is held.
func (s *stream) mediaOf(kind description.MediaType) *media {
	for d, m := range s.medias {
		if d.Type == kind {
			return m
		}
	}
	return nil
}
