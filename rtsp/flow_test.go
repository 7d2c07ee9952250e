package rtsp

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/internal/rtpframe"
)

// flowTest is a player of a stream whose frames have two packets.
type flowTest struct {
	*streamTest
	p    *player
	sink *sinkOf
	lost int
	hole uint32 // the publisher loses the second packet of each frame whose number can be divided by that; 0: none
}

func testFlow(t *testing.T, run func(*flowTest)) {
	t.Helper()
	testStream(t, 1<<20, func(s *streamTest) {
		f := &flowTest{streamTest: s}
		f.join()
		defer f.p.rest()
		run(f)
	})
}

func (f *flowTest) join() {
	f.p, f.sink = f.streamTest.join(func(p *player) {
		p.outlets[f.lead].reports = map[uint8]*report{96: {ssrc: 5, format: f.lead.Formats[0]}}
	})
}

// locked changes or reads state that the stream uses while a player catches up.
func (f *flowTest) locked(change func()) {
	f.stream.mu.Lock()
	defer f.stream.mu.Unlock()
	change()
}

// frame writes a frame with a slice of that kind, and returns how many of its packets the player gets.
func (f *flowTest) frame(header byte) int {
	f.t.Helper()
	before := len(f.sink.packets)
	f.add(header, 1)
	time.Sleep(40 * time.Millisecond)
	return len(f.sink.packets) - before
}

// add writes frames at once.
func (f *flowTest) add(header byte, frames int) {
	f.t.Helper()
	for range frames {
		f.next++
		for i := range uint32(2) {
			if i == 1 && f.hole != 0 && f.next%f.hole == 0 {
				continue
			}
			require.True(f.t, f.take(append([]byte{header}, make([]byte, 988)...), rtp.Header{
				Version: 2, PayloadType: 96, SSRC: 7, SequenceNumber: uint16(2*f.next + i), Timestamp: f.next * 3600,
			}))
		}
	}
}

// second writes frames of a second, and has the player report that it has lost some packets of these.
func (f *flowTest) second(lost int) {
	for range 25 {
		f.frame(0x65)
	}
	f.reports(lost)
}

func (f *flowTest) reports(lost int) {
	f.lost += lost
	gaps := 2*int(f.next) - len(f.sink.packets)
	f.heeds(2*int(f.next)+1, f.lost+gaps)
}

func (f *flowTest) heeds(highest, lost int) {
	first := uint32(f.p.outlets[f.lead].shift.sequence)
	f.p.hear(f.desc.Medias[0], &rtcp.ReceiverReport{Reports: []rtcp.ReceptionReport{
		{SSRC: 6, TotalLost: 1e6}, // another media's
		{SSRC: 5, LastSequenceNumber: first + uint32(highest), TotalLost: uint32(lost)},
	}}, true)
}

// TestSlowPath has a player report that it loses packets. It gets whole frames, the important ones, until it has lost
// nothing for a while. Packets left out are counted, and not sent when the player asks for them.
func TestSlowPath(t *testing.T) {
	testFlow(t, func(f *flowTest) {
		f.second(0)
		f.second(2)
		require.Zero(t, f.p.outlets[f.lead].limit.Rate(), "some paths always lose a few packets")
		f.second(25)
		require.True(t, f.p.isLimited())
		all, some := 0, 0
		for range 100 {
			switch n := f.frame(0x41); n {
			case 0:
				some++
			case 2:
				all++
			default:
				t.Fatalf("%d packets of a frame", n)
			}
		}
		require.NotZero(t, all)
		require.NotZero(t, some)
		require.Equal(t, 2, f.frame(0x65), "a key frame")
		require.EqualValues(t, 2*some, counted(t, f.metrics.declined, "declined_packets_total"))
		require.EqualValues(t, 2*some, f.relay.Guests()[0].Dropped)
		f.p.hear(f.desc.Medias[0], nackOf(f.sink.packets[len(f.sink.packets)-1].SequenceNumber), true)
		require.EqualValues(t, 1, counted(t, f.metrics.nacks, "nacked_packets_total", nackSlowPath))
		for range 100 {
			f.second(0)
		}
		require.False(t, f.p.isLimited())
		require.Equal(t, 2, f.frame(0x41))
	})
}

// TestKeyFramesEnd has a player report losses once, of a video that has no key frames any more. It gets nothing for a
// while, as if it waited for one, and then everything.
func TestKeyFramesEnd(t *testing.T) {
	testFlow(t, func(f *flowTest) {
		f.second(0)
		f.second(25)
		second := func() (got int) {
			for range 25 {
				got += f.frame(0x41)
			}
			return got
		}
		waits := 0
		for range 20 {
			if second() == 0 {
				waits++
			}
			f.reports(0)
		}
		require.InDelta(t, patience.Seconds(), waits, 2)
		require.False(t, f.p.isLimited())
		require.Equal(t, 50, second())
		f.second(25)
		require.False(t, f.p.isLimited(), "for a minute")
		f.p.outlets[f.lead].own.SetRate(0)
		for range 60 {
			f.second(0)
		}
		f.second(25)
		require.True(t, f.p.isLimited(), "after that")
	})
}

// TestPublisherLoses has a player report packets as lost that the publisher has lost. They tell nothing of the player's
// path. Losses there count as before.
func TestPublisherLoses(t *testing.T) {
	testFlow(t, func(f *flowTest) {
		f.second(0)
		f.hole = 4
		for range 5 {
			f.second(0)
		}
		require.False(t, f.p.isLimited())
		f.second(3)
		require.False(t, f.p.isLimited(), "some paths always lose a few packets")
		f.second(6)
		require.True(t, f.p.isLimited())
	})
}

// TestGaps checks how many packets are missing between two.
func TestGaps(t *testing.T) {
	m := &media{sequence: 7}
	require.Zero(t, m.gap(1000), "before it there was none")
	m.heard = time.Now()
	for sequence, gap := range map[uint16]int{
		8: 0, 9: 1, 7 + 2999: 2998, 7 + 3000: 0, 7: 0, 6: 0, 65535: 0, 0x8000: 0,
	} {
		require.EqualValues(t, gap, m.gap(sequence), "%d after 7", sequence)
	}
	m.sequence = 65535
	require.EqualValues(t, 1, m.gap(1))
}

// TestReportsAfterPause has a player pause while packets come. It has not lost these on the path. Losses there count as
// before.
func TestReportsAfterPause(t *testing.T) {
	testFlow(t, func(f *flowTest) {
		f.second(0)
		highest := 2*int(f.next) + 1
		f.p.rest() // PAUSE
		f.add(0x65, 150)
		require.True(t, f.p.play(f.desc.Medias, f.sink)) // PLAY
		f.settle()
		f.heeds(highest, 0) // was on its way
		for range 3 {
			f.second(0)
			require.False(t, f.p.isLimited())
		}
		f.second(25)
		require.True(t, f.p.isLimited())
	})
}

// TestClipThatBeginsAgain has timestamps, and then sequence numbers, too, begin again with each two seconds. A player
// that got nothing goes on with the first frame after its limit has ended: that is not taken for one from before.
func TestClipThatBeginsAgain(t *testing.T) {
	for name, mask := range map[string]uint32{"timestamps": math.MaxUint32, "and sequence numbers": 50} {
		t.Run(name, func(t *testing.T) {
			testFlow(t, func(f *flowTest) {
				for i := range uint32(500) {
					if i == 250 {
						f.p.outlets[f.lead].use(func(w *rtpframe.Flow) {
							w.SetBucket(claim.Bucket{Rate: 1, Burst: 1}, f.clock.Now().Add(time.Hour))
						})
					}
					if i == 375 {
						f.p.outlets[f.lead].use(func(w *rtpframe.Flow) { w.SetRate(0) })
					}
					before := len(f.sink.packets)
					for packet := range uint32(2) {
						require.True(t, f.take([]byte{0x65, 1}, rtp.Header{
							Version: 2, PayloadType: 96, SSRC: 7, SequenceNumber: uint16(2*(i%mask) + packet),
							Timestamp: i % 50 * 3600,
						}))
					}
					goes := i < 250 || i >= 375
					require.Equal(t, goes, len(f.sink.packets) == before+2, "frame %d", i)
				}
			})
		})
	}
}

// TestKeepAll has a player report losses that change nothing.
func TestKeepAll(t *testing.T) {
	testFlow(t, func(f *flowTest) {
		f.policy.keepAll = true
		f.second(0)
		f.second(25)
		require.False(t, f.p.isLimited())
	})
}

// TestSkippedPackets leaves out a group for a player with a full queue, which the publisher loses packets of, too. The
// player has not lost these on the path.
func TestSkippedPackets(t *testing.T) {
	testFlow(t, func(f *flowTest) {
		f.second(0)
		f.sink.err = errors.New("full")
		f.frame(0x65)
		f.sink.err, f.hole = nil, 2
		for range 24 {
			require.Zero(t, f.frame(0x41))
		}
		f.second(0)
		require.False(t, f.p.isLimited())
	})
}

// TestLeftOutWhileCatchingUp has players skip the end of a group while they catch up. They have not lost that on the
// path, nor what the publisher has lost.
func TestLeftOutWhileCatchingUp(t *testing.T) {
	for name, leave := range map[string]func(*flowTest){
		"the next group begins": func(f *flowTest) { f.add(0x65, 1) },
		"the cache is full":     func(f *flowTest) { f.locked(func() { f.limitCache(1) }); f.add(0x41, 1) },
		"the queue is full":     func(f *flowTest) { f.locked(func() { f.sink.err = errors.New("full") }) },
	} {
		t.Run(name, func(t *testing.T) {
			testStream(t, 1<<22, func(s *streamTest) {
				f := &flowTest{streamTest: s, hole: 5}
				f.add(0x65, 1)
				f.add(0x41, 200)
				f.join()
				defer f.p.rest()
				time.Sleep(2 * burstInterval)
				first, highest := 0, 0
				f.locked(func() {
					first = len(f.sink.packets)
					last := f.sink.packets[first-1].SequenceNumber - f.p.outlets[f.lead].shift.sequence
					highest = int(last) - 1 // the first one has number 2
				})
				require.Greater(t, highest, first)
				f.heeds(highest, highest-first)
				leave(f)
				f.settle()
				f.locked(func() {
					f.limitCache(1 << 22)
					f.sink.err = nil
				})
				f.add(0x65, 1)
				f.add(0x41, 100)
				f.settle()
				got := len(f.sink.packets)
				require.Greater(t, got, first)
				require.Less(t, got, int(2*f.next)*3/4)
				f.heeds(int(2*f.next), int(2*f.next)-got)
				require.Zero(t, f.p.outlets[f.lead].limit.Rate())
				require.InDelta(t, int(2*f.next)-got, f.p.outlets[f.lead].declined.packets, 2)
			})
		})
	}
}

// everyOther is a rule.
type everyOther struct{}

func (everyOther) Admit(_ *claim.ConnState, a claim.Admission) claim.Verdict {
	if a.Group%2 == 0 {
		return claim.Declined
	}
	return claim.Admitted
}

// TestOperatorsRule asks an operator's rule about frames.
func TestOperatorsRule(t *testing.T) {
	testFlow(t, func(f *flowTest) {
		f.policy.rule = everyOther{}
		for i := range 10 {
			require.Equal(t, 2*((i+1)%2), f.frame(0x65))
		}
	})
}

// TestCodecs checks which medias have a codec that tells how frames depend on others.
func TestCodecs(t *testing.T) {
	desc := broadcast()
	require.Equal(t, rtpframe.H264, codecOf(desc.Medias[0]))
	require.Equal(t, rtpframe.Audio, codecOf(desc.Medias[1]))
	desc.Medias[0].Formats = append(desc.Medias[0].Formats, desc.Medias[0].Formats[0])
	require.Equal(t, rtpframe.Unknown, codecOf(desc.Medias[0]))
	for i, f := range videoFormats {
		require.Equal(t, []rtpframe.Codec{rtpframe.H264, rtpframe.H265, rtpframe.AV1, 0, 0}[i], videoCodec(f))
	}
}
