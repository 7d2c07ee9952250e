package programs

import (
	"encoding/binary"
	"net/netip"

	"github.com/quic-go/quic-go/quicvarint"

	"sluice/fastpath/bpf"
	"sluice/moqt"
)

const numberLen = 4

// makePrefix returns what a downstream stream begins with, see write_prefix.
func (c *streamCopy) makePrefix() []byte {
	g, n := c.group, int(c.path.StreamPrefixLen)
	b := append([]byte{}, c.path.StreamPrefix[len(c.path.StreamPrefix)-n:]...)
	b = moqt.AppendVarint(append(b, g.HeaderType), c.sub.Alias)
	b = moqt.AppendVarint(b, g.Group)
	if g.Subgroup != 0 {
		b = moqt.AppendVarint(b, g.Subgroup)
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

// write returns the frame of the copy, see build_copy.
func (c *streamCopy) write() []byte {
	kind := byte(frameStream)
	if c.offset != 0 {
		kind |= streamOff
	}
	if c.frame.fin {
		kind |= streamFIN
	}
	id := c.state.ID.Load()
	b := quicvarint.AppendWithLen([]byte{kind}, id, integerLen(id))
	if c.offset != 0 {
		b = quicvarint.AppendWithLen(b, uint64(c.offset), integerLen(uint64(c.offset)))
	}
	b = append(b, c.prefix...)
	return append(b, c.frame.data[len(c.frame.data)-int(c.to-c.from):]...)
}

// seal returns the packet with a frame, see seal_packet.
func (o *outgoing) seal(frame []byte) []byte {
	k := peekKeys(&o.machine.Keys[o.subscriber].Generation[o.generation&3])
	b := append(make([]byte, 0, o.packetLen), 0x40|numberLen-1|byte(o.generation&1)<<2)
	b = append(b, o.path.Dcid[:o.path.DcidLen]...)
	pnAt := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(o.number))
	head := len(b)
	b = append(b, frame...)
	a, nonce := k.aead(o.number)
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
func (o *outgoing) sendClone(packet []byte) bpf.Reason {
	to := remoteOf(&o.path)
	if o.chance(o.habits.Refuse) {
		if o.gone = !o.chance(0.5); !o.gone {
			o.mu.Lock()
			delete(o.neighbors, to)
			o.mu.Unlock()
		}
		return bpf.IngressReasonCOPY_LOST
	}
	o.gone = true
	o.send(to, packet)
	return bpf.IngressReasonCOPY_SENT
}
