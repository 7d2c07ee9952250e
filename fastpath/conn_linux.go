package fastpath

import (
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/moqt"
)

const opening = uint32(claim.StreamOpening)

// conn implements [media.SecondConn].
type conn struct {
	fast    *FastPath
	index   uint32
	abandon func(*claim.StreamState)

	received atomic.Int64 // largest packet number

	mu      sync.Mutex
	closed  bool
	copies  map[string]uint64 // once closed
	ids     map[string]struct{}
	session *claim.Session
	path    *claim.Path
	streams map[bpf.DownstreamKey]uint32 // slots of streams that have an owner
	keys    map[uint32]bpf.DownstreamKey // by slot
	ahead   lookahead

	// As a publisher.
	tracks  int // on the fast path
	largest uint64
	read    map[uint64]struct{} // streams that user space has begun to read, until they are forgotten
	ended   []endedStream       // in the order of time
}

// ConnectionID implements [media.SecondConn].
func (c *conn) ConnectionID(id []byte, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
	case usable:
		c.ids[string(id)] = struct{}{}
		c.fast.report("add a connection id", c.fast.kernel.AddConnectionID(id, c.index))
	default:
		delete(c.ids, string(id))
		c.removeID(string(id))
	}
}

func (c *conn) removeID(id string) {
	if err := c.fast.kernel.RemoveConnectionID([]byte(id)); !errors.Is(err, ebpf.ErrKeyNotExist) {
		c.fast.report("remove a connection id", err)
	}
}

// Received implements [media.SecondConn].
func (c *conn) Received(largest int64) { c.received.Store(largest) }

// ReadKeys implements [media.SecondConn].
func (c *conn) ReadKeys(phase uint64, k *claim.PacketKeys) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	u := &c.fast.kernel.publishers[c.index]
	bit := uint32(1) << (phase & 1)
	words := (*packetKeys)(k).words()
	if phase > 0 {
		words.Hp = u.Keys[0].Hp // key updates do not change it (RFC 9001 §6.1)
	}
	atomic.AndUint32(&u.KeysSet, ^bit)
	u.Keys[phase&1] = words
	atomic.OrUint32(&u.KeysSet, bit)
}

// WriteKeys implements [media.SecondConn].
func (c *conn) WriteKeys(phase uint64, k *claim.PacketKeys) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	keys := &c.fast.kernel.keys[c.index]
	words := (*packetKeys)(k).words()
	if phase > 0 {
		words.Hp = keys.Generation[(phase-1)&3].Hp
	}
	keys.Generation[phase&3] = words
	keys.Generation[(phase+2)&3] = bpf.PacketKeys{} // no packet can need it any more
	c.ahead.setKeys(phase, k)
}

// SetSession implements [media.SecondConn].
func (c *conn) SetSession(s claim.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if s.Layout != knownLayout {
		c.fast.log.Info("a connection is not served by the fast path, which does not know the layout of its version's headers", "layout", s.Layout)
		return
	}
	c.session = &s
	c.fast.kernel.publishers[c.index].Webtransport = uint8(min(1, len(s.DatagramPrefix)))
	c.publishPath()
}

// knownLayout is the layout of the headers that bpf/moqt.h reads and writes.
const knownLayout = moqt.DataLayout1

// isServed reports whether the kernel may forward from and to the connection: its session is known, and the layout of
// its headers too.
func (c *conn) isServed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != nil
}

// SetPath implements [media.SecondConn].
func (c *conn) SetPath(p claim.Path) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.path = &p
	c.publishPath()
}

func (c *conn) publishPath() {
	if c.closed || c.session == nil || c.path == nil {
		return
	}
	local := c.path.Local
	if a, ok := sourceAddress(c.path.OOB); ok {
		local = netip.AddrPortFrom(a, local.Port())
	}
	err := c.fast.kernel.SetPath(c.index, subscriberPath{
		Local: local, Remote: c.path.Remote, ConnectionID: c.path.DestConnID,
		StreamPrefix: c.session.StreamPrefix, DatagramPrefix: c.session.DatagramPrefix, InitialMaxStream: c.path.MaxStreamData,
		MaxDatagram: c.path.MaxDatagramFrame,
	})
	if err != nil {
		_ = c.fast.kernel.ingress.Paths.Delete(c.index) // the old one leads elsewhere; there may be none
		c.fast.log.Info("a subscriber is not served by the fast path", "address", c.path.Remote, "reason", err)
	}
}

// sourceAddress is the address that control messages make a packet leave from (ip(7), ipv6(7)).
func sourceAddress(oob []byte) (netip.Addr, bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= int(unsafe.Sizeof(unix.Inet4Pktinfo{})):
			a, _ := netip.AddrFromSlice(m.Data[4:8]) // ipi_spec_dst
			return a, !a.IsUnspecified()
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= int(unsafe.Sizeof(unix.Inet6Pktinfo{})):
			a, _ := netip.AddrFromSlice(m.Data[:16])
			return a.Unmap(), !a.IsUnspecified()
		}
	}
	return netip.Addr{}, false
}

// OpenStream implements [media.SecondConn].
func (c *conn) OpenStream(up *claim.PublisherStream) (*claim.StreamState, bool) {
	from, ok := up.Conn.(*conn)
	if !ok || from == nil || !from.isServed() || !c.isServed() || !c.fast.enter() {
		return nil, false
	}
	defer c.fast.exit()
	key := bpf.DownstreamKey{StreamId: uint64(up.StreamID), Publisher: from.index, Subscriber: c.index}
	for range maxAttempts {
		slot, theirs, err := c.claimStream(key)
		if errors.Is(err, ebpf.ErrKeyExist) {
			continue // the kernel was faster
		}
		if err != nil {
			return nil, false
		}
		state := &c.fast.flows[slot]
		if !theirs || !awaitOpened(state) {
			return state, false
		}
		if state.ID.Load() == claim.NoStream {
			state.Phase.Store(opening)
			return state, false
		}
		return state, true
	}
	return nil, false
}

const maxAttempts = 4

// findStream returns the slot of a stream, from the kernel or a new one.
func (c *conn) findStream(key bpf.DownstreamKey) (slot uint32, theirs bool, err error) {
	maps := &c.fast.kernel.ingress
	if err := maps.Downstreams.Lookup(key, &slot); err == nil {
		return slot, true, nil
	}
	if err := maps.FreeStreams.LookupAndDelete(nil, &slot); err != nil {
		return 0, false, err
	}
	c.fast.flows[slot].Phase.Store(opening)
	if err := maps.Downstreams.Update(key, slot, ebpf.UpdateNoExist); err != nil {
		c.fast.report("free a stream", maps.FreeStreams.Put(nil, slot)) // nobody has seen it
		return 0, false, err
	}
	return slot, false, nil
}

// claimStream makes the stream one that has an owner, unless it has one. All that adds a stream of a connection to the
// map, or removes it, and is not the kernel or the end of the connection holds mu: so a slot is freed once.
func (c *conn) claimStream(key bpf.DownstreamKey) (slot uint32, theirs bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.claimable(key); err != nil {
		return 0, false, err
	}
	if slot, theirs, err = c.findStream(key); err == nil {
		c.streams[key], c.keys[slot] = slot, key
	}
	return slot, theirs, err
}

// claimTheirs does so with a stream that the kernel has opened.
func (c *conn) claimTheirs(key bpf.DownstreamKey) (slot uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.claimable(key); err != nil {
		return 0, err
	}
	if err = c.fast.kernel.ingress.Downstreams.Lookup(key, &slot); err == nil {
		c.streams[key], c.keys[slot] = slot, key
	}
	return slot, err
}

func (c *conn) claimable(key bpf.DownstreamKey) error {
	if _, taken := c.streams[key]; taken || c.closed {
		return errors.New("the stream has an owner, or the connection has ended")
	}
	return nil
}

// awaitOpened waits until the kernel, on another CPU, is through with opening a stream: some microseconds.
func awaitOpened(state *claim.StreamState) bool {
	for deadline := time.Now().Add(openingTimeout); state.Phase.Load() == opening; runtime.Gosched() {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// openingTimeout covers virtual machines whose CPUs are taken away for a while.
const openingTimeout = time.Second

// CloseStream implements [media.SecondConn].
func (c *conn) CloseStream(state *claim.StreamState) {
	i, ok := indexOf(c.fast.flows, state)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if key, ok := c.keys[uint32(i)]; ok {
		c.fast.reclaimer.closeStream(closedStream{c, key, uint32(i)})
	}
}

// release lets go of a closed stream, unless the publisher's stream goes on: then the kernel would open another one
// when it sees the first packet once more.
func (c *conn) release(s closedStream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key, ok := c.keys[s.slot]; c.closed || !ok || key != s.key {
		return true // it was closed twice
	}
	maps := &c.fast.kernel.ingress
	var g bpf.Subgroup
	if maps.Subgroups.Lookup(bpf.StreamKey{StreamId: s.key.StreamId, Publisher: s.key.Publisher}, &g) == nil && g.Ended == 0 {
		return false
	}
	delete(c.keys, s.slot)
	delete(c.streams, s.key)
	c.fast.report("close a stream", maps.Downstreams.Delete(s.key))
	c.fast.reclaimer.freeSlot(s.slot)
	return true
}

// Close implements [media.SecondConn].
func (c *conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	k := c.fast.kernel
	c.closed, c.copies = true, k.Copies(c.index)
	if err := k.ForgetPath(c.index); !errors.Is(err, ebpf.ErrKeyNotExist) {
		c.fast.report("forget a subscriber", err)
	}
	c.ahead.erase()
	for id := range c.ids {
		c.removeID(id)
	}
	k.ForgetPublisher(c.index)
	for slot, key := range c.keys {
		c.fast.report("close a stream", k.ingress.Downstreams.Delete(key))
		c.fast.reclaimer.freeSlot(slot)
	}
	c.keys, c.streams = nil, nil
	c.fast.mu.Lock()
	if c.fast.conns[c.index] == c {
		c.fast.conns[c.index] = nil
	}
	c.fast.mu.Unlock()
	c.fast.reclaimer.freeConn(c)
}
