package fastpath

import (
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

const (
	opening = uint32(claim.StreamOpening)
	// maxAttempts is how often OpenStream tries to open a stream before the kernel does.
	maxAttempts = 4
	// streamShare is how many streams of the kernel one connection may have. A subscriber of a hundred tracks has that
	// many for a moment. A subscriber that acknowledges nothing has them until the media sender gives up its streams.
	streamShare = uint32(bpf.IngressCapacitySTREAM_SHARE)
)

// errNoSlot is the reason copy_stream_share or copy_no_slot, which the programs count when they see the stream's first
// frame.
var errNoSlot = errors.New("the connection has as many streams in the kernel as one may have, or all slots are taken")

// noSlot is in the place of the slot of a stream that the kernel takes no part in. No stream has this number.
const noSlot = uint32(math.MaxUint32)

// subscribing is the part of a connection that subscribes: where its packets go, and which downstream streams it has.
type subscribing struct {
	conn *conn

	// Guarded by conn.mu.
	path    *claim.Path
	slots   map[bpf.DownstreamKey]uint32 // of downstream streams that the media sender knows
	keys    map[uint32]bpf.DownstreamKey // of the same, by slot
	sealing lookahead
}

// SetPath implements [claim.ForwarderConn].
func (s *subscribing) SetPath(p claim.Path) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.path = &p
	s.publishPathLocked()
}

// publishPathLocked tells the programs where packets go, once path and session are known.
func (s *subscribing) publishPathLocked() {
	if s.conn.closed || s.conn.session == nil || s.path == nil {
		return
	}
	p := *s.path
	if a, ok := sourceAddress(p.OOB); ok {
		p.Local = netip.AddrPortFrom(a, p.Local.Port())
	}
	if err := s.conn.fast.kernel.SetPath(s.conn.index, p, *s.conn.session); err != nil {
		s.conn.fast.kernel.paths.remove(s.conn.index) // an old one may lead elsewhere
		const message = "the fast path does not serve a subscriber"
		s.conn.fast.log.Log(slog.LevelInfo, message, message, "address", s.path.Remote, "reason", err)
	}
}

// sourceAddress returns the source address that control messages give a packet (ip(7), ipv6(7)).
func sourceAddress(oob []byte) (netip.Addr, bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, m := range messages {
		is := func(level, typ int32, size uintptr) bool {
			return m.Header.Level == level && m.Header.Type == typ && len(m.Data) >= int(size)
		}
		switch {
		case is(unix.IPPROTO_IP, unix.IP_PKTINFO, unsafe.Sizeof(unix.Inet4Pktinfo{})):
			a, _ := netip.AddrFromSlice(m.Data[4:8]) // ipi_spec_dst
			return a, !a.IsUnspecified()
		case is(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unsafe.Sizeof(unix.Inet6Pktinfo{})):
			a, _ := netip.AddrFromSlice(m.Data[:16])
			return a.Unmap(), !a.IsUnspecified()
		}
	}
	return netip.Addr{}, false
}

// OpenStream implements [claim.ForwarderConn].
func (s *subscribing) OpenStream(from *claim.PublisherStream) (state *claim.StreamState, adopted bool) {
	publisher, ok := from.Conn.(*conn)
	if !ok || publisher == nil || !publisher.wasServed() || !s.conn.isServed() || !s.conn.fast.enter() {
		return nil, false
	}
	defer s.conn.fast.exit()
	defer publisher.begun.raise()
	key := bpf.DownstreamKey{StreamId: uint64(from.StreamID), Publisher: publisher.index, Subscriber: s.conn.index}
	return s.openStream(publisher, key, from.Start)
}

// openStream is OpenStream for a publisher that was there just now.
func (s *subscribing) openStream(
	publisher *conn, key bpf.DownstreamKey, start int64,
) (state *claim.StreamState, adopted bool) {
	for range maxAttempts {
		slot, found, err := s.takeStream(key)
		if errors.Is(err, ebpf.ErrKeyExist) {
			continue // the kernel was faster
		}
		if errors.Is(err, errNoSlot) {
			s.endForgone(publisher, key)
		}
		if err != nil || !publisher.wasServed() && !s.hide(key, found) {
			return nil, false
		}
		state := &s.conn.fast.streams[slot]
		if !found {
			return state, false
		}
		if !s.awaitOpened(state) {
			return s.refuse(slot, start)
		}
		if state.ID.Load() == claim.NoStream {
			state.Phase.Store(opening)
			return state, false
		}
		return state, true
	}
	return nil, false
}

// takeStream returns the slot of a downstream stream for the media sender, unless the media sender has it already.
// found means that the kernel has opened the stream.
//
// A slot is freed once, because functions that add a stream of the connection to the map, or remove one, hold mu. There
// are two exceptions: the kernel, which only adds, and the sweep after the connection has ended, which removes the
// rest.
func (s *subscribing) takeStream(key bpf.DownstreamKey) (slot uint32, found bool, err error) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	held := &s.conn.fast.states[s.conn.index].Slots
	full := held.Load() >= streamShare // first, so that a stream that the kernel has opened meanwhile is found
	if slot, err = s.takeOpenedLocked(key); !errors.Is(err, ebpf.ErrKeyNotExist) {
		return slot, err == nil, err
	}
	if !full {
		if slot, err = s.conn.fast.newStream(key); err == nil {
			held.Add(1)
			s.slots[key], s.keys[slot] = slot, key
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return slot, false, err
		}
	}
	return 0, false, s.forgoLocked(key)
}

// forgoLocked has the media sender open a stream without a slot: no run may open it then that has taken a slot just
// before, or that finds room just after. The error is [ebpf.ErrKeyExist] if the kernel was faster.
func (s *subscribing) forgoLocked(key bpf.DownstreamKey) error {
	downstreams := s.conn.fast.kernel.tables.Downstreams
	if err := downstreams.Update(key, noSlot, ebpf.UpdateNoExist); err != nil {
		return err
	}
	s.slots[key] = noSlot
	return errNoSlot
}

// endForgone removes such an entry when no run is left that had begun before. If the publisher has ended, its index may
// be another's, whose streams have entries of their own: the sweep removes this one, or has been there already.
func (s *subscribing) endForgone(publisher *conn, key bpf.DownstreamKey) {
	s.conn.fast.reclaimer.afterRuns(func() {
		if publisher.wasServed() {
			s.release(noSlot, key)
		}
	})
	if !publisher.wasServed() {
		s.orphan(key)
	}
}

// takeOpenedLocked returns the slot of a stream that the kernel has opened, unless the media sender has it already.
func (s *subscribing) takeOpenedLocked(key bpf.DownstreamKey) (slot uint32, err error) {
	if _, taken := s.slots[key]; taken || s.conn.closed {
		return 0, errors.New("the media sender has the stream, or the connection has ended")
	}
	if err = s.conn.fast.kernel.tables.Downstreams.Lookup(key, &slot); err == nil {
		s.slots[key], s.keys[slot] = slot, key
	}
	return slot, err
}

// awaitOpened waits some microseconds, until the kernel, on another CPU, has opened a stream.
func (s *subscribing) awaitOpened(state *claim.StreamState) bool {
	return s.conn.fast.kernel.spin(func() bool { return state.Phase.Load() != opening })
}

// refuse ends the wait for a run of the kernel's that takes too long to open a stream. If the run has claimed the first
// bytes, the stream is open but for its phase, and is adopted. If not, the cursor is closed before it can: the media
// sender goes on alone, and the stream is abandoned when the run has ended.
func (s *subscribing) refuse(slot uint32, start int64) (state *claim.StreamState, adopted bool) {
	if state = &s.conn.fast.streams[slot]; !state.Claim(start, start, true) {
		return state, true
	}
	s.abandonLate(slot)
	return nil, false
}

// CloseStream implements [claim.ForwarderConn].
func (s *subscribing) CloseStream(state *claim.StreamState) {
	i, ok := indexOf(s.conn.fast.streams, state)
	if !ok {
		return
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if key, ok := s.keys[uint32(i)]; ok {
		s.conn.fast.reclaimer.afterRuns(func() { s.release(uint32(i), key) })
	}
}

// release frees the slot of a closed stream when no run is left that had begun before: one may open another stream in
// its place. Later ones do not, because the run that registers a subgroup opens its streams.
func (s *subscribing) release(slot uint32, key bpf.DownstreamKey) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if slot != noSlot {
		key = s.keys[slot] // the publisher may have ended meanwhile
	}
	if now, ok := s.slots[key]; s.conn.closed || !ok || now != slot {
		return // it was closed twice
	}
	delete(s.slots, key)
	s.removeStreamLocked(key)
	if slot != noSlot {
		delete(s.keys, slot)
		s.conn.fast.states[s.conn.index].Slots.Add(^uint32(0))
		s.conn.fast.freeSlot(slot)
	}
}

// removeStreamLocked has the kernel not find a stream any more.
func (s *subscribing) removeStreamLocked(key bpf.DownstreamKey) {
	if key.Publisher != nobody {
		s.conn.fast.report("close a stream", s.conn.fast.kernel.tables.Downstreams.Delete(key))
	}
}

// nobody is in the place of a publisher that has ended. No connection has this index.
const nobody = uint32(math.MaxUint32)

// orphan hides a downstream stream from the kernel when its publisher has ended. Another publisher gets the index, and
// may have a stream with the same id. The media sender keeps the slot, and sends the rest of the log.
func (s *subscribing) orphan(key bpf.DownstreamKey) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	slot, held := s.slots[key]
	if !held {
		return
	}
	s.removeStreamLocked(key)
	delete(s.slots, key)
	if slot != noSlot {
		lone := bpf.DownstreamKey{StreamId: uint64(slot), Publisher: nobody, Subscriber: s.conn.index}
		s.slots[lone], s.keys[slot] = slot, lone
	}
}

// hide hides a stream that was taken when the publisher had ended: the sweep has not seen it, and another publisher may
// have the index. It reports false if the stream is one that the kernel has opened for the other publisher.
func (s *subscribing) hide(key bpf.DownstreamKey, found bool) bool {
	if !found {
		s.orphan(key)
		return true
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	slot, held := s.slots[key]
	if held { // else the sweep has hidden it
		delete(s.slots, key)
		delete(s.keys, slot)
	}
	return !held
}

// abandonLate abandons a stream when the kernel has opened it. The slots of an ended connection are free.
func (s *subscribing) abandonLate(slot uint32) {
	s.conn.fast.reclaimer.until(func() bool {
		s.conn.mu.Lock()
		_, held := s.keys[slot]
		s.conn.mu.Unlock()
		state := &s.conn.fast.streams[slot]
		if held && state.Phase.Load() != opening {
			s.discard(state)
			return true
		}
		return !held
	})
}

// discard resets a stream that the kernel has opened. One without an id was not opened.
func (s *subscribing) discard(state *claim.StreamState) {
	if state.ID.Load() == claim.NoStream {
		s.CloseStream(state)
	} else {
		s.conn.abandon(state)
	}
}

// Acknowledged implements [claim.ForwarderConn]: it makes key streams for the next packets.
func (s *subscribing) Acknowledged() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.conn.closed {
		return
	}
	sent := atomic.LoadUint64(&s.conn.fast.kernel.copies[s.conn.index].ByReason[0])
	s.sealing.look(s.conn.fast.states[s.conn.index].NextPN.Load(), sent)
	s.sealing.refill(maxRefill)
	if s.sealing.wanted {
		s.conn.fast.reclaimer.rouse()
	}
}
