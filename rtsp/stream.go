package rtsp

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/pion/rtp"

	shared "sluice/clock"
	"sluice/fastpath"
	"sluice/internal/rtpframe"
)

// stream has the packets of a publisher, and the players that get them.
type stream struct {
	publisher *publisher // nil: it is of a downlink
	demand    *downlink  // nil: it is of a publisher
	desc      *description.Session
	medias    map[*description.Media]*media
	cached    *share
	metrics   *metrics
	policy    policy
	clock     shared.System

	mu      sync.Mutex
	lead    *media // the first video with known key frames, whose groups all medias follow; nil: none
	cache   []packet
	first   uint64 // number of cache[0], counted over all packets
	bytes   int    // of the cache
	tail    tail   // the packets before the cache
	frame   int    // where the lead's current frame begins in the cache; -1: it is not there
	whole   bool   // the cache begins with a key frame
	players map[*player]struct{}
	closed  bool
}

// media is a media of a stream.
type media struct {
	*description.Media
	isKey keyFunc // of the lead
	codec rtpframe.Codec

	// Guarded by stream.mu.
	sequence  uint16 // of the newest packet
	ssrc      uint32
	heard     time.Time         // when a packet with that SSRC came last
	begun     bool              // there is a current frame
	timestamp uint32            // of the current frame
	key       bool              // the current frame is one with which decoding can start
	placed    tally             // its packets so far, if the stream has groups,
	forgotten tally             // and its packets before the cache
	numbers   map[uint16]uint64 // of its packets in cache and tail, by sequence number; the newest one's of several
	frames    rtpframe.Frames   // while the kernel does not number them
	temporal  uint32            // the highest temporal id
	kernel    forwarder         // the kernel, if it sends packets, too; nil: it does not
	paused    bool              // the kernel sends nothing now
	resting   bool              // nor after the next packet: the publisher is between PAUSE and RECORD
}

// packet is an RTP packet of a media. Nobody changes it.
type packet struct {
	media  *media
	rtp    *rtp.Packet
	ntp    time.Time // when its timestamp was sampled
	number uint64    // in the stream
	gap    uint16    // how many packets before it have never come
	frame  uint32    // number of its frame
	kind   rtpframe.Kind
	cut    *[]*rtp.Packet // its pieces for SRTP; nil: no player has needed them

	served fastpath.RTPServed // the players that the kernel has sent it to
}

// maxStreamCache is how many bytes of packets a stream keeps: 4 s of 16 Mbit/s. A player that joins a stream with
// longer groups waits for the next key frame.
const maxStreamCache = 8 << 20

// Memory of a packet beside the buffer in which it came, with its places in the cache and the index of its media, and
// of a header extension of it.
const (
	packetOverhead    = 312
	extensionOverhead = 32
)

func (p *packet) size() int { return memory(p.rtp) }

// memory returns how many bytes a packet takes. It keeps the buffer in which it came, even if it fills little of that.
func memory(p *rtp.Packet) int {
	return p.Header.MarshalSize() + cap(p.Payload) + cap(p.Extensions)*extensionOverhead + packetOverhead
}

// ssrcTimeout is how long an SSRC has to be silent until another one may follow it. A publisher changes its SSRC when
// it has restarted or found a collision (RFC 3550 §8.2). Somebody else who forges its address has to know it.
const ssrcTimeout = time.Second

func newStream(desc *description.Session, cached *share, m *metrics) *stream {
	s := &stream{
		desc: desc, medias: make(map[*description.Media]*media), cached: cached, metrics: m,
		players: make(map[*player]struct{}), clock: shared.NewSystem(),
	}
	for _, d := range desc.Medias {
		m := &media{Media: d, codec: codecOf(d)}
		s.medias[d] = m
		if d.Type == description.MediaTypeVideo && s.lead == nil && len(d.Formats) == 1 {
			if m.isKey = keyFuncOf(d.Formats[0]); m.isKey != nil {
				s.lead = m
			}
		}
	}
	return s
}

// write takes the next packet of a media and sends it to the players. It reports whether the packet is the publisher's,
// as far as its SSRC tells.
func (s *stream) write(d *description.Media, p *rtp.Packet, now, ntp time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.medias[d]
	gap, late, restarts := m.gap(p.SequenceNumber), m.isLate(p), m.restarts(p)
	if s.closed || !m.owns(p.SSRC, now) {
		return false
	}
	if !late {
		m.sequence = p.SequenceNumber
	}
	next := packet{media: m, rtp: p, ntp: ntp, gap: gap, frame: m.number(p, restarts)}
	next.served = m.served(p) // later: the kernel knows at once that the publisher counts anew
	next.kind = rtpframe.KindOf(m.codec, p.Payload, &m.temporal)
	begins := s.placeLocked(&next)
	for player := range s.players {
		switch {
		case player.live:
			player.send(&next)
			player.outlets[m].handOver(now) // from the next packet on: who had the place before may have this one
		case !player.late: // it catches up
		case begins && s.whole:
			s.catchUpLocked(player)
		case begins || now.Sub(player.since) > patience:
			player.begin()
			player.from = next.number
			player.send(&next)
		default:
			player.decline(&next)
		}
	}
	return true
}

// patience is how long a player waits for a key frame. Some encoders make none: they refresh a part of each picture.
const patience = 10 * time.Second

// maxGap is the number of missing packets from which on a receiver may take the sender for one that counts anew: the
// step to the next number is 3,000 (MAX_DROPOUT, RFC 3550 §A.1). It reports no losses then.
const maxGap = 2999

// gap returns how many packets have not come between the newest one and one with a sequence number.
func (m *media) gap(sequence uint16) uint16 {
	if gap := sequence - m.sequence - 1; !m.heard.IsZero() && gap < maxGap {
		return gap
	}
	return 0
}

// maxLate is by how many numbers a packet may come late. The library puts packets by UDP in order, but not those by
// TCP. If the numbers go back as far, the publisher counts anew.
const maxLate = 64

// isLate reports whether a packet comes after one with a newer sequence number, or again.
func (m *media) isLate(p *rtp.Packet) bool {
	return !m.heard.IsZero() && m.ssrc == p.SSRC && m.sequence-p.SequenceNumber < maxLate
}

// restarts reports whether the publisher counts anew with a packet.
func (m *media) restarts(p *rtp.Packet) bool {
	back := int16(p.SequenceNumber - m.sequence)
	return !m.heard.IsZero() && (m.ssrc != p.SSRC || back <= -maxLate)
}

// owns reports whether packets with an SSRC are the media's.
func (m *media) owns(ssrc uint32, now time.Time) bool {
	if !m.heard.IsZero() && m.ssrc != ssrc && now.Sub(m.heard) < ssrcTimeout {
		return false
	}
	m.ssrc, m.heard = ssrc, now
	return true
}

// placeLocked numbers a packet and adds it to the cache. It reports whether a group begins: then the cache has its
// packets only, if it is whole.
func (s *stream) placeLocked(p *packet) (begins bool) {
	p.number = s.endLocked()
	if s.lead == nil {
		s.passLocked(p)
		return false
	}
	p.media.placed.addWithGap(p)
	if m := s.lead; p.media == m {
		if !m.begun || p.rtp.Timestamp != m.timestamp {
			m.begun, m.timestamp, m.key = true, p.rtp.Timestamp, false
			s.frame = len(s.cache)
		}
		if begins = !m.key && m.isKey(p.rtp.Payload); begins {
			m.key, s.whole = true, s.frame >= 0
			s.forgetLocked(max(s.frame, 0))
		}
	}
	if size := p.size(); s.bytes+size <= maxStreamCache && s.takeLocked(size) {
		s.cache = append(s.cache, *p)
		s.bytes += size
		p.index()
	} else {
		s.forgetLocked(len(s.cache))
		s.whole, s.frame = false, -1
		s.passLocked(p)
		p.media.forgotten.addWithGap(p)
	}
	return begins
}

// index adds the packet to the index of its media.
func (p *packet) index() {
	if p.media.numbers == nil {
		p.media.numbers = make(map[uint16]uint64)
	}
	p.media.numbers[p.rtp.SequenceNumber] = p.number
}

// findLocked returns a packet of the cache or the tail by its sequence number, or nil.
func (s *stream) findLocked(m *media, sequence uint16) *packet {
	number, ok := m.numbers[sequence]
	switch {
	case !ok:
		return nil
	case number < s.first:
		return &s.tail.packets[number-s.oldestLocked()]
	}
	return &s.cache[number-s.first]
}

// forgetLocked moves the first n packets of the cache to the tail. Few remain, there and of the current frame, so the
// indexes are made anew, and their memory does not stay.
func (s *stream) forgetLocked(n int) {
	if n == 0 {
		return
	}
	for i := range n {
		s.bytes -= s.cache[i].size()
		s.cache[i].media.forgotten.addWithGap(&s.cache[i])
	}
	for _, m := range s.medias {
		m.numbers = nil
	}
	s.tail.add(s.cached, s.cache[:n]...)
	s.first += uint64(n)
	s.frame = max(s.frame-n, -1)
	s.cache = slices.Delete(s.cache, 0, n)
	if len(s.cache) < cap(s.cache)/4 {
		s.cache = append([]packet(nil), s.cache...) // the memory of a long group is not counted any more
	}
	for i := range s.tail.packets {
		s.tail.packets[i].index()
	}
	for i := range s.cache {
		s.cache[i].index()
	}
}

// endLocked is the number of the next packet.
func (s *stream) endLocked() uint64 { return s.first + uint64(len(s.cache)) }

func (s *stream) end() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endLocked()
}

// since returns the packets from a number on that are kept, and reports whether others are lost.
func (s *stream) since(number uint64) (kept []packet, gap bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lead == nil || number < s.first {
		return slices.Clone(s.cache), true
	}
	return slices.Clone(s.cache[number-s.first:]), false
}

// join adds a player, which begins with the last key frame, or with the next one.
func (s *stream) join(p *player) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.players[p] = struct{}{}
	p.live, p.late = false, false
	switch {
	case s.lead == nil:
		p.begin()
		p.from = s.endLocked()
	case s.whole:
		s.catchUpLocked(p)
	default:
		p.wait()
	}
	return true
}

// catchUpLocked has a player follow the cache from its beginning, or from the first packet it lacks, until it is live.
func (s *stream) catchUpLocked(p *player) {
	p.live, p.late, p.next = false, false, max(p.got, s.first)
	if p.got < s.first {
		p.from = s.first
	}
	p.passTo(p.next)
	if s.advanceLocked(p) {
		go s.catchUp(p, p.ctx())
	}
}

// Packets by which a player catches up: 48 KB, every 4 ms. That is 100 Mbit/s, which the receive buffer of a socket
// takes.
const (
	burst         = 32
	burstInterval = 4 * time.Millisecond
)

func (s *stream) catchUp(p *player, done <-chan struct{}) {
	for range shared.Every(burstInterval, done) {
		if !s.advance(p, done) {
			return
		}
	}
}

func (s *stream) advance(p *player, done <-chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-done:
		return false
	default:
		return !s.closed && s.advanceLocked(p)
	}
}

// advanceLocked sends the next packets of the cache, and reports whether there are more. If the cache has moved on to
// another group, the player does as well: the rest of the old group would only make it later.
func (s *stream) advanceLocked(p *player) bool {
	if p.next < s.first {
		p.miss(dropNextGroup)
		p.skip(!s.whole)
		p.next, p.from = s.first, s.first
		if !s.whole {
			p.wait()
		}
	}
	for range burst {
		if p.live || p.late {
			return false
		}
		if p.next == s.endLocked() {
			p.begin()
			return false
		}
		next := s.cache[p.next-s.first] // a copy: the cache does not keep pieces for SRTP
		p.send(&next)
		p.pass(&next)
		p.next++
		if p.late {
			p.skip(true) // it could not take the packet
			return false
		}
	}
	return true
}

// leave removes a player.
func (s *stream) leave(p *player) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.players, p)
	p.takeBack()
}

// close ends the stream, and the sessions of its players when they have got the last packets.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.forgetLocked(len(s.cache))
	s.tail.drop(s.cached, len(s.tail.packets))
	for p := range s.players {
		go p.end()
	}
}

// budget is a part of the memory of the bridge.
type budget struct {
	max   int64
	share *share // that has it, too; nil: none
	used  atomic.Int64
}

func (b *budget) take(n int) bool {
	if b.used.Add(int64(n)) <= b.max && b.share.Take(n) {
		return true
	}
	b.used.Add(-int64(n))
	return false
}

func (b *budget) give(n int) {
	b.used.Add(-int64(n))
	b.share.Give(n)
}
