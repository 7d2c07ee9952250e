package programs

import (
	"encoding/binary"
	"net/netip"

	"sluice/fastpath/bpf"
)

const numberLen = 4

// makePrefix returns what a downstream stream begins with, see write_prefix.
func (c *streamCopy) makePrefix() []byte {
	g, n := c.group, int(c.path.StreamPrefixLen)
	b := append([]byte{}, c.path.StreamPrefix[len(c.path.StreamPrefix)-n:]...)
	b = appendVI64(append(b, g.HeaderType), c.sub.Alias)
	b = appendVI64(b, g.Group)
	if g.HeaderType&subgroupIDPresent != 0 {
		b = appendVI64(b, g.Subgroup)
	}
	return append(b, g.Priority)
}

// streamHeaderLen is the length of the header of a STREAM frame that ends with its packet.
func streamHeaderLen(id uint64, offset int64) int {
	n := 1 + integerLen(id)
	if offset != 0 {
		n += integerLen(uint64(offset))
	}
	return n
}

func integerLen(v uint64) int {
	if v < 1<<30 {
		return 4
	}
	return 8
}

func appendInteger(b []byte, v uint64) []byte {
	if v < 1<<30 {
		return binary.BigEndian.AppendUint32(b, 2<<30|uint32(v))
	}
	return binary.BigEndian.AppendUint64(b, 3<<62|v)
}

// seal returns the packet of the copy, see build_copy and seal_packet.
func (c *streamCopy) seal() []byte {
	k := peekKeys(&c.machine.Keys[c.key.Subscriber].Generation[c.generation&3])
	b := append(make([]byte, 0, c.packetLen), 0x40|numberLen-1|byte(c.generation&1)<<2)
	b = append(b, c.path.Dcid[:c.path.DcidLen]...)
	pnAt := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(c.number))
	head := len(b)

	kind := byte(frameStream)
	if c.offset != 0 {
		kind |= streamOff
	}
	if c.frame.fin {
		kind |= streamFIN
	}
	b = appendInteger(append(b, kind), c.state.ID.Load())
	if c.offset != 0 {
		b = appendInteger(b, uint64(c.offset))
	}
	b = append(b, c.prefix...)
	b = append(b, c.frame.data[len(c.frame.data)-int(c.to-c.from):]...)

	a, nonce := k.aead(c.number)
	b = a.Seal(b[:head], nonce[:], b[head:], b[:head:head])
	mask := headerMask(&k, b[pnAt+sampleAt:])
	b[0] ^= mask[0] & 0x1f
	for i := range numberLen {
		b[pnAt+i] ^= mask[1+i]
	}
	return b
}

func (k *Kernel) knows(to netip.AddrPort) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.neighbors[to]
}

// sendClone hands a copy to the device. One that does not take it may forget the neighbour, too, see fanout/clone.h.
func (c *streamCopy) sendClone(packet []byte) bpf.Reason {
	to := remoteOf(&c.path)
	if c.chance(c.habits.Refuse) {
		if c.chance(0.5) {
			c.mu.Lock()
			delete(c.neighbors, to)
			c.mu.Unlock()
		}
		return bpf.IngressReasonCOPY_LOST
	}
	c.send(to, packet)
	return bpf.IngressReasonCOPY_SENT
}
