package fastpath

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/moqt"
)

// conn is a connection that takes part, as a subscriber ([subscribing]) and as a publisher ([publishing]). It
// implements [claim.ForwarderConn]. The methods are called with the media sender's lock held.
type conn struct {
	fast    *FastPath
	index   uint32 // of its elements in the maps
	abandon func(*claim.StreamState)
	since   uint64 // when it began, see monotonic

	subscribing
	publishing

	mu      sync.Mutex // guards all below, and the removal of the connection's elements from maps
	closed  bool
	gone    bool              // another connection may have the index
	copies  map[string]uint64 // once closed, see FastPath.Copies
	ids     map[string]struct{}
	session *claim.Session // nil: unknown, or its layout is unknown to the programs
}

// knownLayout is the layout of the headers that bpf/application reads and writes.
const knownLayout = moqt.DataLayout1

// Ledger implements [claim.ForwarderConn].
func (c *conn) Ledger() []claim.Record { return c.fast.kernel.ledgers.of(c.index) }

// ConnectionID implements [claim.ForwarderConn].
func (c *conn) ConnectionID(id []byte, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
	case usable && len(c.ids) < int(bpf.IngressCapacityIDS_PER_CONNECTION): // else packets with it are user space's
		c.ids[string(id)] = struct{}{}
		c.fast.report("add a connection id", c.fast.kernel.AddConnectionID(id, c.index))
	case !usable:
		delete(c.ids, string(id))
		c.removeID(string(id))
	}
}

func (c *conn) removeID(id string) {
	err := c.fast.kernel.tables.ConnectionIds.Delete(connectionID([]byte(id)))
	if !errors.Is(err, ebpf.ErrKeyNotExist) {
		c.fast.report("remove a connection id", err)
	}
}

// ReadKeys implements [claim.ForwarderConn]. The programs look at KeysSet before they read the keys of a phase. They
// use the keys of an update once user space has received the next packet, and so know of a packet number that it alone
// has seen: the first packet with these keys may have it.
func (c *conn) ReadKeys(phase uint64, k *claim.PacketKeys) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	p := &c.fast.kernel.publishers[c.index]
	words := wordsOf(k)
	if phase > 0 {
		words.Hp = p.Keys[0].Hp // key updates do not change it (RFC 9001 §6.1)
	}
	atomic.StoreUint32(&p.KeysSet, 0)
	p.Keys[phase&1] = words
	c.readPhase = phase & 1
	c.opening.setKeys(c.readPhase, k)
	if phase == 0 {
		atomic.StoreUint32(&p.KeysSet, 1)
	}
	c.prepareAt.Store(0)
}

// WriteKeys implements [claim.ForwarderConn].
func (c *conn) WriteKeys(phase uint64, k *claim.PacketKeys) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	keys := &c.fast.kernel.keys[c.index]
	words := wordsOf(k)
	if phase > 0 {
		words.Hp = keys.Generation[(phase-1)&3].Hp
	}
	keys.Generation[phase&3] = words
	keys.Generation[(phase+2)&3] = bpf.PacketKeys{} // from two updates ago: it protects no packet any more
	c.sealing.setKeys(phase, k)
}

// SetSession implements [claim.ForwarderConn].
func (c *conn) SetSession(s claim.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if s.Layout != knownLayout {
		const message, why = "the fast path does not serve a connection",
			"it does not know the layout of its version's headers"
		c.fast.log.Log(slog.LevelInfo, message, message, "reason", why, "layout", s.Layout)
		return
	}
	c.session = &s
	c.fast.kernel.publishers[c.index].Webtransport = flag[uint8](len(s.DatagramPrefix) > 0)
	c.publishPathLocked()
}

// isServed reports whether the kernel may forward from and to the connection: it has not ended, its session is known,
// and so is the layout of its headers.
func (c *conn) isServed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != nil && !c.closed
}

// wasServed reports whether the kernel may have forwarded from the connection, and no other has its index yet. User
// space reads its published data also when it has ended.
func (c *conn) wasServed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != nil && !c.gone
}

// Close implements [claim.ForwarderConn]. Programs may be opening a packet of the connection, or sealing one for it:
// the reclaimer erases the keys, and frees the memory, after a grace period.
func (c *conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	k := c.fast.kernel
	c.closed, c.copies = true, k.Copies(c.index)
	c.begun.raise()
	k.paths.remove(c.index)
	c.sealing.erase()
	c.opening.erase()
	for id := range c.ids {
		c.removeID(id)
	}
	atomic.StoreUint32(&k.publishers[c.index].KeysSet, 0)
	k.publishers[c.index].Active = 0
	for stream := range c.awaited {
		if _, read := c.read[stream]; !read { // it never will be
			c.releaseLocked(stream)
		}
	}
	for slot, key := range c.keys {
		c.removeStreamLocked(key)
		c.fast.freeSlot(slot)
	}
	c.keys, c.slots = nil, nil
	c.fast.conns.set(c.index, nil)
	leave(c.fast.reclaimer, &c.fast.reclaimer.conns, c)
}

func (c *conn) rings() [2]ring { return [...]ring{{c, &c.sealing}, {c, &c.opening}} }
