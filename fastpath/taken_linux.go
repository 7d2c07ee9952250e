package fastpath

import (
	"math"
	"sync/atomic"
	"unsafe"

	"sluice/claim"
	"sluice/clock"
	"sluice/fastpath/bpf"
)

const (
	takesNone   = bpf.IngressTakingTAKES_NONE
	takesPaused = bpf.IngressTakingTAKES_PAUSED
	takesAcks   = bpf.IngressTakingTAKES_ACKS
)

// TakeAcks implements [claim.ForwarderConn].
func (c *conn) TakeAcks(queue int, receive func(*claim.TakenPacket)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.fast.passAcks {
		return
	}
	c.fast.kernel.publishers[c.index].Queue = uint32(queue % len(c.fast.kernel.queues))
	c.receive.Store(&receive)
	c.takes = takesPaused
	c.publishTakingLocked()
}

// SetTaking implements [claim.ForwarderConn].
func (c *conn) SetTaking(on bool, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takes = takesPaused
	if on {
		c.takes = takesAcks + bpf.Taking(generation&1)
	}
	c.publishTakingLocked()
}

// publishTakingLocked tells the programs what they may take, once they can know from where.
func (c *conn) publishTakingLocked() {
	if c.closed || c.receive.Load() == nil || !c.known {
		return
	}
	p := &c.fast.kernel.publishers[c.index]
	if c.takes >= takesAcks && p.Active == 0 {
		c.beginOpeningLocked() // quic-go has opened packets meanwhile
	}
	atomic.StoreUint32(&p.Taking, uint32(c.takes))
}

// HandOver implements [claim.Forwarder].
func (f *FastPath) HandOver(queue int) {
	f.kernel.queues[queue%len(f.kernel.queues)].HandOver(math.MaxInt, f.handOver)
}

// handOver hands a packet that was taken to its connection. An index is not given to another connection before all
// packets of the last one were handed over.
func (f *FastPath) handOver(record []byte) {
	const header = int(unsafe.Sizeof(bpf.TakenPacket{}))
	p := (*bpf.TakenPacket)(unsafe.Pointer(unsafe.SliceData(record)))
	atomic.AddUint32(&f.kernel.publishers[p.Connection].Waiting, ^uint32(0))
	c := f.registry.conn(p.Connection)
	if c == nil {
		return
	}
	(*c.receive.Load())(&claim.TakenPacket{
		Number: p.Pn, Received: clock.Time(p.Received), ECN: p.Ecn, Frames: record[header : header+int(p.Len)],
	})
}
