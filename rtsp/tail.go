package rtsp

// tail has the packets that came before a stream's cache: the last ones of the group before, or of a stream without
// groups. Players that have lost some of them get them again. Their numbers follow each other, up to the cache's first.
type tail struct {
	packets []packet
	bytes   int
}

// Limits of a tail: 3 s of 2 Mbit/s, half a second of 8 Mbit/s. Players ask for missing packets within a round trip or
// two, and wait for them as long as their jitter buffers are.
const (
	maxTail      = 512 // packets
	maxTailBytes = 1 << 20
)

// add adds packets whose memory was taken, and drops as many as are too many.
func (t *tail) add(memory *share, list ...packet) {
	if extra := len(list) - maxTail; extra > 0 { // do not copy them only to drop them
		t.drop(memory, len(t.packets))
		for i := range extra {
			memory.Give(list[i].size())
		}
		list = list[extra:]
	}
	for i := range list {
		t.bytes += list[i].size()
	}
	t.packets = append(t.packets, list...)
	packets, bytes := maxTail, maxTailBytes
	if memory.isShort() {
		packets, bytes = 0, 0
	}
	n, left := 0, t.bytes
	for ; len(t.packets)-n > packets || left > bytes; n++ {
		left -= t.packets[n].size()
	}
	t.drop(memory, n)
}

// drop removes the first n packets, also from the indexes of their medias.
func (t *tail) drop(memory *share, n int) {
	for i := range n {
		p := &t.packets[i]
		t.bytes -= p.size()
		memory.Give(p.size())
		if numbers, sequence := p.media.numbers, p.rtp.SequenceNumber; numbers[sequence] == p.number {
			delete(numbers, sequence)
		}
	}
	clear(t.packets[:n])
	if t.packets = t.packets[n:]; len(t.packets) == 0 {
		t.packets = nil
	}
}

// passLocked adds a packet to the tail that does not go to the cache. Without room for it, the tail is empty: it has no
// gaps.
func (s *stream) passLocked(p *packet) {
	s.first++
	if s.cached.Take(p.size()) {
		p.index()
		s.tail.add(s.cached, *p)
	} else {
		s.tail.drop(s.cached, len(s.tail.packets))
	}
}

// oldestLocked is the number of the oldest packet that is kept.
func (s *stream) oldestLocked() uint64 { return s.first - uint64(len(s.tail.packets)) }

// takeLocked takes memory for the cache, which comes before the tail.
func (s *stream) takeLocked(n int) bool {
	if s.cached.Take(n) {
		return true
	}
	s.tail.drop(s.cached, len(s.tail.packets))
	return s.cached.Take(n)
}
