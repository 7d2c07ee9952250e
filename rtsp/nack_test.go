package rtsp

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"
)

func nackOf(sequences ...uint16) *rtcp.TransportLayerNack {
	return &rtcp.TransportLayerNack{Nacks: rtcp.NackPairsFromSequenceNumbers(sequences)}
}

// nacked returns how many packets were asked for with a result.
func (s *streamTest) nacked(result string) int {
	return int(counted(s.t, s.metrics.nacks, "nacked_packets_total", result))
}

// TestNACK checks that a player gets packets again as it got them first, each at most twice, and no others.
func TestNACK(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		s.start = 65530 // the numbers wrap around
		p, sink := s.player()
		s.frames(15)
		first := append([]*rtp.Packet(nil), sink.packets...)
		ask := func(n ...uint16) {
			sink.packets = nil
			p.hear(s.desc.Medias[0], nackOf(n...), true)
		}
		for range maxRepeats {
			ask(first[12].SequenceNumber, first[14].SequenceNumber)
			require.Equal(t, []*rtp.Packet{first[12], first[14]}, sink.packets)
		}
		require.Equal(t, 2*maxRepeats, s.nacked(nackSent))
		ask(first[12].SequenceNumber)
		require.Empty(t, sink.packets)
		require.Equal(t, 1, s.nacked(nackOften))
		ask(first[9].SequenceNumber)
		require.Equal(t, first[9:10], sink.packets, "the last one of the group before")
		ask(first[14].SequenceNumber + 1)
		require.Empty(t, sink.packets, "of the future")
		require.Equal(t, 1, s.nacked(nackUnknown))

		s.frames(maxTail + 20)
		require.Len(t, p.again.times, 3)
		ask(first[14].SequenceNumber)
		require.Empty(t, sink.packets, "of long ago")
		require.Equal(t, 2, s.nacked(nackUnknown))
		require.Empty(t, p.again.times, "what is not kept is forgotten")
	})
}

// TestNACKOfWhatWasLeftOut has players ask for packets of the group before that were left out for them: since they
// joined later, or their queue was full.
func TestNACKOfWhatWasLeftOut(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		slow, sink := s.player()
		s.frames(5)
		sink.err = errors.New("full")
		s.frames(1)
		sink.err = nil
		s.frames(9)
		joined, _ := s.player()
		require.Equal(t, append(span(1, 5), span(11, 15)...), sink.numbers())
		for _, p := range []*player{slow, joined} {
			for number := range uint16(10) {
				p.hear(s.desc.Medias[0], nackOf(1+number+p.outlets[s.lead].shift.sequence), true)
			}
			p.hear(s.desc.Medias[0], nackOf(11+p.outlets[s.lead].shift.sequence), true)
		}
		require.Equal(t, 20, s.nacked(nackUnknown))
		require.Equal(t, 2, s.nacked(nackSent))
	})
}

// TestNACKWithoutGroups has a player ask for sound of a stream that has no video. It keeps some packets, and not more.
func TestNACKWithoutGroups(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		s.lead = nil
		early, sink := s.player()
		s.frames(2 * maxTail)
		late, _ := s.player()
		s.frames(1)
		require.Len(t, s.tail.packets, maxTail)
		require.Len(t, s.medias[s.desc.Medias[0]].numbers, maxTail)
		got := sink.packets
		sink.packets = nil
		for i, n := range []int{maxTail, maxTail + 1, 2 * maxTail} { // with numbers from 0 on, of 2*maxTail+1
			early.hear(s.desc.Medias[0], nackOf(got[n].SequenceNumber), true)
			require.Equal(t, i, s.nacked(nackSent))
		}
		require.Equal(t, got[maxTail+1].Payload, sink.packets[0].Payload)
		m := s.medias[s.desc.Medias[0]]
		for _, n := range []uint16{2 * maxTail, 2*maxTail + 1} {
			late.hear(m.Media, nackOf(n+late.outlets[m].shift.sequence), true)
		}
		require.Equal(t, 3, s.nacked(nackSent), "the last one, which it has got, and not the one before")
		require.Equal(t, 2, s.nacked(nackUnknown))
	})
}

// TestTail checks that the packets before the cache have a limit in bytes, and give way to the cache.
func TestTail(t *testing.T) {
	testStream(t, maxStreamCache, func(s *streamTest) {
		s.frames(1)
		for range maxTail {
			require.True(t, s.take(make([]byte, 4000), rtp.Header{SSRC: 7}))
		}
		s.next = 10
		s.frames(1) // a group begins
		size := s.tail.packets[0].size()
		require.Len(t, s.tail.packets, maxTailBytes/size)
		require.Equal(t, maxTailBytes/size*size, s.tail.bytes)
		require.EqualValues(t, s.tail.bytes+s.bytes, s.cached.pool.inUse())
		s.limitCache(s.cached.pool.inUse())
		s.frames(1)
		require.Empty(t, s.tail.packets)
		require.Len(t, s.cache, 2)
		s.next = 20
		s.limitCache(3 * s.cached.pool.inUse())
		s.frames(1)
		require.Len(t, s.tail.packets, 2)
		s.limitCache(s.cached.pool.inUse() + 1)
		s.next = 30
		s.frames(1)
		require.Empty(t, s.tail.packets, "players that join come first")
	})
}

// TestNACKIndex checks that packets are found by their media and sequence number, the newest one if there are more with
// it, and that the indexes have the packets of the cache only.
func TestNACKIndex(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		d := &description.Media{Type: description.MediaTypeAudio}
		audio := &media{Media: d}
		s.medias[d] = audio
		p, sink := s.player()
		p.outlets[audio].begin()
		write := func(sequence uint16, payload string) {
			packet := &rtp.Packet{Payload: []byte(payload), Header: rtp.Header{SSRC: 8, SequenceNumber: sequence}}
			require.True(t, s.write(d, packet, time.Now(), time.Now()))
		}
		ask := func(sequence uint16) (payloads []string) {
			sink.packets = nil
			p.hear(d, nackOf(sequence+p.outlets[audio].shift.sequence), true)
			for _, packet := range sink.packets {
				payloads = append(payloads, string(packet.Payload))
			}
			return payloads
		}
		check := func(sequences ...uint16) {
			t.Helper()
			require.ElementsMatch(t, sequences, slices.Collect(maps.Keys(audio.numbers)))
			require.Equal(t, len(s.tail.packets)+len(s.cache), len(s.lead.numbers)+len(audio.numbers))
		}
		s.frames(2)
		write(1, "a")
		write(3, "b")
		check(1, 3)
		require.Equal(t, []string{"a"}, ask(1))
		require.Empty(t, ask(2), "the lead's")
		require.Equal(t, []string{"b"}, ask(3))
		s.frames(8)
		write(4, "c")
		s.frames(1) // a group begins
		check(1, 3, 4)
		require.Equal(t, []string{"c"}, ask(4))
		write(5, "d")
		write(5, "e")
		require.Equal(t, []string{"e"}, ask(5))
		s.forgetLocked(1)
		require.Equal(t, []string{"e"}, ask(5), "it has another place in the cache")
	})
}

// TestNACKLimit checks that a player cannot ask for ever more packets, and that its NACKs do not make it skip a group.
func TestNACKLimit(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		p, sink := s.player()
		s.frames(1)
		for range 3 * repeatBurst {
			p.hear(s.desc.Medias[0], nackOf(sink.packets[0].SequenceNumber+7), true)
		}
		require.Equal(t, repeatBurst, s.nacked(nackUnknown))
		require.Equal(t, 2*repeatBurst, s.nacked(nackLimit))
		time.Sleep(time.Second)
		p.hear(s.desc.Medias[0], nackOf(sink.packets[0].SequenceNumber), true)
		require.Equal(t, 1, s.nacked(nackSent))
		s.frames(2)
		require.Equal(t, []int{1, 1, 2, 3}, sink.numbers())

		p.wait()
		p.hear(s.desc.Medias[0], nackOf(sink.packets[0].SequenceNumber), true)
		require.Len(t, sink.packets, 4, "it waits for the next group")
		p.rest()
		p.hear(&description.Media{}, nackOf(1), true)
		require.Len(t, sink.packets, 4)
	})
}
