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

// SetPath implements [claim.ForwarderConn].
func (c *conn) SetPath(p claim.Path) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.path = &p
	c.publishPathLocked()
}

// publishPathLocked tells the programs where packets go, once path and session are known.
func (c *conn) publishPathLocked() {
	if c.closed || c.session == nil || c.path == nil {
		return
	}
	local := c.path.Local
	if a, ok := sourceAddress(c.path.OOB); ok {
		local = netip.AddrPortFrom(a, local.Port())
	}
	err := c.fast.kernel.SetPath(c.index, subscriberPath{
		Local: local, Remote: c.path.Remote, ConnectionID: c.path.DestConnID,
		StreamPrefix: c.session.StreamPrefix, DatagramPrefix: c.session.DatagramPrefix,
		InitialMaxStream: c.path.MaxStreamData, MaxDatagram: c.path.MaxDatagramFrame,
	})
	if err != nil {
		c.fast.kernel.RemovePath(c.index) // an old one may lead elsewhere
		const message = "the fast path does not serve a subscriber"
		c.fast.log.Log(slog.LevelInfo, message, message, "address", c.path.Remote, "reason", err)
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
func (c *conn) OpenStream(from *claim.PublisherStream) (state *claim.StreamState, adopted bool) {
	publisher, ok := from.Conn.(*conn)
	if !ok || publisher == nil || !publisher.wasServed() || !c.isServed() || !c.fast.enter() {
		return nil, false
	}
	defer c.fast.exit()
	key := bpf.DownstreamKey{StreamId: uint64(from.StreamID), Publisher: publisher.index, Subscriber: c.index}
	for range maxAttempts {
		slot, found, err := c.takeStream(key)
		if errors.Is(err, ebpf.ErrKeyExist) {
			continue // the kernel was faster
		}
		if err != nil {
			return nil, false
		}
		state := &c.fast.streams[slot]
		if !found {
			return state, false
		}
		if !c.awaitOpened(state) {
			return c.refuse(slot, from.Start)
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
func (c *conn) takeStream(key bpf.DownstreamKey) (slot uint32, found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := &c.fast.states[c.index].Slots
	full := held.Load() >= streamShare // first, so that a stream that the kernel has opened meanwhile is found
	if slot, err = c.takeOpenedLocked(key); !errors.Is(err, ebpf.ErrKeyNotExist) {
		return slot, err == nil, err
	}
	if !full {
		if slot, err = c.fast.newStream(key); err == nil {
			held.Add(1)
			c.slots[key], c.keys[slot] = slot, key
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return slot, false, err
		}
	}
	return 0, false, c.forgoLocked(key)
}

// forgoLocked has the media sender open a stream without a slot: no run may open it then that has taken a slot just
// before, or that finds room just after. The error is [ebpf.ErrKeyExist] if the kernel was faster.
func (c *conn) forgoLocked(key bpf.DownstreamKey) error {
	downstreams := c.fast.kernel.tables.Downstreams
	if err := downstreams.Update(key, noSlot, ebpf.UpdateNoExist); err != nil {
		return err
	}
	c.slots[key] = noSlot
	c.fast.reclaimer.afterRuns(func() {
		c.fast.reclaimer.until(func() bool { return c.release(noSlot, key) })
	})
	return errNoSlot
}

// takeOpenedLocked returns the slot of a stream that the kernel has opened, unless the media sender has it already.
func (c *conn) takeOpenedLocked(key bpf.DownstreamKey) (slot uint32, err error) {
	if _, taken := c.slots[key]; taken || c.closed {
		return 0, errors.New("the media sender has the stream, or the connection has ended")
	}
	if err = c.fast.kernel.tables.Downstreams.Lookup(key, &slot); err == nil {
		c.slots[key], c.keys[slot] = slot, key
	}
	return slot, err
}

// newStream takes a free slot for a stream and publishes it. The error is [ebpf.ErrKeyExist] if the kernel was faster.
func (f *FastPath) newStream(key bpf.DownstreamKey) (slot uint32, err error) {
	maps := &f.kernel.tables
	if err := maps.FreeStreams.LookupAndDelete(nil, &slot); err != nil {
		return 0, err
	}
	f.streams[slot].Phase.Store(opening)
	if err := maps.Downstreams.Update(key, slot, ebpf.UpdateNoExist); err != nil {
		f.report("free a stream", maps.FreeStreams.Put(nil, slot)) // it was never published
		return 0, err
	}
	return slot, nil
}

// awaitOpened waits some microseconds, until the kernel, on another CPU, has opened a stream.
func (c *conn) awaitOpened(state *claim.StreamState) bool {
	return c.fast.kernel.spin(func() bool { return state.Phase.Load() != opening })
}

// refuse ends the wait for a run of the kernel's that takes too long to open a stream. If the run has claimed the first
// bytes, the stream is open but for its phase, and is adopted. If not, the cursor is closed before it can: the media
// sender goes on alone, and the stream is abandoned when the run has ended.
func (c *conn) refuse(slot uint32, start int64) (state *claim.StreamState, adopted bool) {
	if state = &c.fast.streams[slot]; !state.Claim(start, start, true) {
		return state, true
	}
	c.abandonLate(slot)
	return nil, false
}

// CloseStream implements [claim.ForwarderConn].
func (c *conn) CloseStream(state *claim.StreamState) {
	i, ok := indexOf(c.fast.streams, state)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if key, ok := c.keys[uint32(i)]; ok {
		c.fast.reclaimer.until(func() bool { return c.release(uint32(i), key) })
	}
}

// release frees the slot of a closed stream, and reports whether it has. While the kernel has the subgroup, the slot is
// kept: without it, a run would open another stream if the first packet came again. The subgroup goes when no run is
// left that began before the publisher's stream ended.
func (c *conn) release(slot uint32, key bpf.DownstreamKey) (done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot != noSlot {
		key = c.keys[slot] // the publisher may have ended meanwhile
	}
	if now, ok := c.slots[key]; c.closed || !ok || now != slot {
		return true // it was closed twice
	}
	maps := &c.fast.kernel.tables
	from := bpf.StreamKey{StreamId: key.StreamId, Publisher: key.Publisher}
	if maps.Subgroups.Lookup(from, new(bpf.Subgroup)) == nil {
		return false
	}
	delete(c.slots, key)
	c.removeStreamLocked(key)
	if slot != noSlot {
		delete(c.keys, slot)
		c.fast.states[c.index].Slots.Add(^uint32(0))
		c.fast.freeSlot(slot)
	}
	return true
}

// removeStreamLocked has the kernel not find a stream any more.
func (c *conn) removeStreamLocked(key bpf.DownstreamKey) {
	if key.Publisher != nobody {
		c.fast.report("close a stream", c.fast.kernel.tables.Downstreams.Delete(key))
	}
}

// nobody is in the place of a publisher that has ended. No connection has this index.
const nobody = uint32(math.MaxUint32)

// orphan hides a downstream stream from the kernel when its publisher has ended. Another publisher gets the index, and
// may have a stream with the same id. The media sender keeps the slot, and sends the rest of the log.
func (c *conn) orphan(key bpf.DownstreamKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot, held := c.slots[key]
	if !held {
		return
	}
	c.removeStreamLocked(key)
	delete(c.slots, key)
	if slot != noSlot {
		lone := bpf.DownstreamKey{StreamId: uint64(slot), Publisher: nobody, Subscriber: c.index}
		c.slots[lone], c.keys[slot] = slot, lone
	}
}

// freeSlot frees a slot that is in no map any more.
func (f *FastPath) freeSlot(slot uint32) {
	f.reclaimer.afterRuns(func() { f.report("free a stream", f.kernel.tables.FreeStreams.Put(nil, slot)) })
}

// abandonUnadopted resets a stream that the kernel has opened, unless the media sender has it.
func (f *FastPath) abandonUnadopted(key bpf.DownstreamKey) {
	c := f.registry.conn(key.Subscriber)
	if c == nil {
		return
	}
	c.mu.Lock()
	slot, err := c.takeOpenedLocked(key)
	c.mu.Unlock()
	if err != nil {
		return
	}
	if state := &f.streams[slot]; c.awaitOpened(state) {
		c.discard(state)
	} else {
		c.abandonLate(slot)
	}
}

// abandonLate abandons a stream when the kernel has opened it. The slots of an ended connection are free.
func (c *conn) abandonLate(slot uint32) {
	c.fast.reclaimer.until(func() bool {
		c.mu.Lock()
		_, held := c.keys[slot]
		c.mu.Unlock()
		state := &c.fast.streams[slot]
		if held && state.Phase.Load() != opening {
			c.discard(state)
			return true
		}
		return !held
	})
}

// discard resets a stream that the kernel has opened. One without an id was not opened.
func (c *conn) discard(state *claim.StreamState) {
	if state.ID.Load() == claim.NoStream {
		c.CloseStream(state)
	} else {
		c.abandon(state)
	}
}

// Acknowledged implements [claim.ForwarderConn]: it makes key streams for the next packets.
func (c *conn) Acknowledged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	sent := atomic.LoadUint64(&c.fast.kernel.copies[c.index].ByReason[0])
	c.sealing.look(c.fast.states[c.index].NextPN.Load(), sent)
	c.sealing.refill(maxRefill)
	if c.sealing.wanted {
		c.fast.reclaimer.rouse()
	}
}
