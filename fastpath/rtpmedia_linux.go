package fastpath

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"sluice/fastpath/bpf"
	"sluice/internal/rtpframe"
)

// RTPMedia is a media of an RTSP publisher, whose packets the kernel sends to players. All packets go up to user space
// as well, which sends them to the players that the kernel has not served: bpf/shared/rtp.h.
type RTPMedia struct {
	fast   *FastPath
	rtp    *rtp
	source RTPSource
	index  uint32

	mu         sync.Mutex
	closed     bool
	shared     *bpf.RTPMedia
	ssrc       uint32
	generation uint16               // of the SSRC; 0: it is not known
	owners     map[int]netip.Prefix // of the positions that are not free
	leaving    []*RTPPlayer         // whose positions programs may still use
}

func checkFamilies(local, remote netip.AddrPort) error {
	if local.Addr().IsUnspecified() || local.Addr().Is4() != remote.Addr().Is4() {
		return fmt.Errorf("fast path: %v and %v: must be two addresses of one family", local, remote)
	}
	return nil
}

// key is the key that rtp_ingress looks for.
func (m *RTPMedia) key() bpf.RTPEndpoint {
	p := udpPath(m.source.Local, m.source.Remote)
	return bpf.RTPEndpoint{Addr: p.Daddr, Port: p.Dport, V6: p.V6}
}

func (m *RTPMedia) giveBack() error {
	err := m.rtp.medias.takeBack(m.index)
	m.rtp.give(sourceOf(m.source.Remote.Addr()), m.index)
	return err
}

// enter keeps the shared memory until exit. It returns false if that has been given back.
func (m *RTPMedia) enter() bool {
	if !m.fast.enter() {
		return false
	}
	m.mu.Lock()
	if m.closed {
		m.exit()
		return false
	}
	return true
}

func (m *RTPMedia) exit() {
	m.mu.Unlock()
	m.fast.exit()
}

// Close has the kernel forget the media. It waits some 10 ms.
func (m *RTPMedia) Close() {
	if !m.enter() {
		return
	}
	m.closed, m.shared = true, nil
	m.mu.Unlock()
	defer m.fast.exit()
	m.fast.report("forget a source of RTP", m.rtp.objects.RtpSources.Delete(m.key()))
	m.fast.kernel.awaitUnused()
	m.fast.report("forget a media of RTP", m.giveBack())
}

// Await waits for the workers' copies of the packets that have come, for a limited time. Only then is it time for Take.
// It holds no lock of the media meanwhile, and the caller should hold none.
func (m *RTPMedia) Await() {
	if !m.fast.enter() {
		return
	}
	defer m.fast.exit()
	w := m.rtp.workers
	w.awaitCopies(m.index%promises, time.Now().Add(w.lifetime))
}

// Take tells the kernel that user space handles a packet now, and returns which players have it. The others get it from
// user space: the kernel sends it to nobody any more. The SSRC of the packet is the media's from now on.
func (m *RTPMedia) Take(p RTPPacket) (served RTPServed) {
	if !m.enter() {
		return served
	}
	defer m.exit()
	number := after(atomic.LoadUint32(&m.shared.Handled), p.Sequence)
	atomic.StoreUint32(&m.shared.Handled, number)
	if m.generation == 0 || p.SSRC != m.ssrc {
		if m.ssrc, m.generation = p.SSRC, m.generation+1; m.generation == 0 {
			m.generation = 1
		}
		atomic.StoreUint64(&m.shared.Source, uint64(m.generation)<<32|uint64(p.SSRC))
	}
	return takeSlot(&m.shared.Slots[p.Sequence%uint16(len(m.shared.Slots))],
		uint64(number)<<16|uint64(m.generation), p.Timestamp)
}

// Frames calls f with the state that numbers the frames of the media for both senders. It returns false if the kernel
// does not serve the media any more.
func (m *RTPMedia) Frames(f func(*rtpframe.Frames)) bool {
	if !m.enter() {
		return false
	}
	defer m.exit()
	f(m.framesLocked())
	return true
}

func (m *RTPMedia) framesLocked() *rtpframe.Frames {
	return (*rtpframe.Frames)(unsafe.Pointer(&m.shared.Frames))
}

// after returns the number of a packet with a sequence number: the next such number after the previous packet's, also
// if the publisher has begun to count anew. So no other packet has it.
func after(number uint32, sequence uint16) uint32 {
	next := number + 1
	return next + uint32(sequence-uint16(next))
}

// takeSlot sets the bits of all players in the slot of a packet, and returns the bits that the kernel had set and has
// not given back. The kernel may have given the packet another number, see bpf/shared/rtp.h: the key's other bits are
// the same. The slot stays as it is if it is about another packet with these bits.
func takeSlot(s *bpf.RTPSlot, key uint64, timestamp uint32) (before RTPServed) {
	now := lockSlot(s)
	same := uint32(now) == uint32(key) && atomic.LoadUint32(&s.Taken) == 0
	if same && atomic.LoadUint32(&s.Timestamp) != timestamp {
		atomic.StoreUint64(&s.Key, now)
		return before
	}
	had := setAll(s)
	awaitLeft(s)
	kept := setAll(s)
	for i := range before {
		if same {
			before[i] = had[i] & kept[i]
		}
	}
	atomic.StoreUint32(&s.Taken, 1)
	atomic.StoreUint64(&s.Key, key)
	return before
}

// setAll sets the bits of all players, and returns the bits that were set before.
func setAll(s *bpf.RTPSlot) (before RTPServed) {
	for i := range before {
		before[i] = atomic.SwapUint64(&s.Players[i], ^uint64(0))
	}
	return before
}

// awaitLeft waits some microseconds, until no program uses a slot.
func awaitLeft(s *bpf.RTPSlot) {
	for deadline := time.Now().Add(openingTimeout); atomic.LoadUint32(&s.Users) > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			return
		}
	}
}

// lockSlot keeps programs from a slot until its key is stored, and returns the key before.
func lockSlot(s *bpf.RTPSlot) (before uint64) {
	for {
		before = atomic.LoadUint64(&s.Key)
		if before == uint64(bpf.RTPRtpMarkRTP_TAKING) {
			runtime.Gosched() // a program is about to write the key
		} else if atomic.CompareAndSwapUint64(&s.Key, before, uint64(bpf.RTPRtpMarkRTP_TAKING)) {
			return before
		}
	}
}

// Pause has the kernel leave packets to user space, or not any more.
func (m *RTPMedia) Pause(paused bool) {
	if !m.enter() {
		return
	}
	defer m.exit()
	atomic.StoreUint32(&m.shared.Paused, flag[uint32](paused))
}

// RTPPlayer is a player of a media that the kernel can serve.
type RTPPlayer struct {
	media    *RTPMedia
	position int
	flow     *rtpframe.Flow // while the kernel does not serve the player

	// Guarded by media.mu.
	left            bool
	packets, octets uint64 // when it has left, see Sent
}

// Join adds a player with a flow, which gets nothing before Forward. It returns nil if the kernel cannot serve it.
func (m *RTPMedia) Join(p RTPPath, flow *rtpframe.Flow) *RTPPlayer {
	if checkFamilies(p.Local, p.Remote) != nil || !m.enter() {
		return nil
	}
	defer m.exit()
	source := sourceOf(p.Remote.Addr())
	at, ok := m.freeLocked(source)
	if !ok {
		return nil
	}
	m.owners[at] = source
	for i := range m.shared.Slots { // their bits are about another player
		atomic.AndUint64(&m.shared.Slots[i].Players[at/64], ^(uint64(1) << (at % 64)))
	}
	m.shared.Players[at] = bpf.RTPPlayer{
		Udp: bpf.RTPUdpPath(udpPath(p.Local, p.Remote)), Sequence: p.Sequence, Timestamp: p.Timestamp,
		Ssrc: bigEndian32(p.SSRC), Mtu: uint32(p.MTU),
	}
	m.flowOf(at).Copy(flow)
	m.framesLocked().Limit(flow)
	m.countLocked()
	return &RTPPlayer{media: m, position: at, flow: flow}
}

// flowOf returns the flow of the player at a position, which both senders use.
func (m *RTPMedia) flowOf(at int) *rtpframe.Flow {
	return (*rtpframe.Flow)(unsafe.Pointer(&m.shared.Players[at].Flow))
}

// freeLocked returns a position that is free for a source. A source may have as many as are free, so one alone has half
// of them at most.
func (m *RTPMedia) freeLocked(source netip.Prefix) (at int, ok bool) {
	own := 0
	for _, owner := range m.owners {
		if owner == source {
			own++
		}
	}
	if own >= MaxPlayers-len(m.owners) {
		return 0, false
	}
	for m.owners[at].IsValid() {
		at++
	}
	return at, true
}

// countLocked tells the kernel where the last player is.
func (m *RTPMedia) countLocked() {
	n := 0
	for at := range m.owners {
		n = max(n, at+1)
	}
	atomic.StoreUint32(&m.shared.Count, uint32(n))
}

// Has reports whether the kernel has sent a packet to the player.
func (s *RTPServed) Has(p *RTPPlayer) bool { return s[p.position/64]>>(p.position%64)&1 != 0 }

// enter keeps the shared memory of the player until media.exit. It returns false if the player has none any more.
func (p *RTPPlayer) enter() bool {
	if !p.media.enter() {
		return false
	}
	if p.left {
		p.media.exit()
	}
	return !p.left
}

// Forward has the kernel send packets to the player, or not any more. A packet that the kernel is sending at that
// moment goes on, and Take tells of it.
func (p *RTPPlayer) Forward(on bool) {
	if !p.enter() {
		return
	}
	defer p.media.exit()
	atomic.StoreUint32(&p.media.shared.Players[p.position].Active, flag[uint32](on))
}

// Sent returns how many packets the kernel has sent to the player, and how many bytes their payloads had. It counts a
// packet that the kernel was sending when the player left only when no program can be using its position.
func (p *RTPPlayer) Sent() (packets, octets uint64) {
	if p.media.enter() {
		defer p.media.exit()
		if !p.left {
			p.readLocked()
		}
	}
	return p.packets, p.octets
}

// Flow calls f with the player's flow.
func (p *RTPPlayer) Flow(f func(*rtpframe.Flow)) {
	if !p.enter() {
		f(p.flow)
		return
	}
	defer p.media.exit()
	f(p.media.flowOf(p.position))
	p.media.framesLocked().Limit(p.media.flowOf(p.position))
}

func (p *RTPPlayer) readLocked() {
	s := &p.media.shared.Players[p.position]
	p.packets, p.octets = atomic.LoadUint64(&s.Packets), atomic.LoadUint64(&s.Octets)
}

// Leave removes the player. Its position is free for another player when no program can be using it.
func (p *RTPPlayer) Leave() {
	if !p.enter() {
		return
	}
	m := p.media
	defer m.exit()
	atomic.StoreUint32(&m.shared.Players[p.position].Active, 0)
	p.readLocked()
	p.flow.Copy(m.flowOf(p.position))
	p.left = true
	if m.leaving = append(m.leaving, p); len(m.leaving) == 1 {
		go m.free()
	}
}

// free makes the positions of players that have left free.
func (m *RTPMedia) free() {
	for {
		m.mu.Lock()
		n := len(m.leaving)
		m.mu.Unlock()
		if !m.fast.AwaitRuns() || m.freed(n) {
			return
		}
	}
}

// freed makes the positions of the first n players that have left free. It returns true if there are no others,
// or the media is closed.
func (m *RTPMedia) freed(n int) bool {
	if !m.enter() {
		return true
	}
	defer m.exit()
	for _, p := range m.leaving[:n] {
		p.readLocked()
		delete(m.owners, p.position)
	}
	m.leaving = slices.Delete(m.leaving, 0, n)
	m.countLocked()
	return len(m.leaving) == 0
}
