package programs

import (
	"sync/atomic"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/moqt"
)

// Bits of the type of OBJECT_DATAGRAM.
const (
	datagramProperties      = 0x01
	datagramEndOfGroup      = 0x02
	datagramZeroObjectID    = 0x04
	datagramDefaultPriority = 0x08
	datagramOther           = 0xf0 // a status, or no object

	objectDone   = uint64(bpf.IngressObjectLayoutOBJECT_DONE)
	versionShift = bpf.IngressObjectLayoutVERSION_SHIFT
)

// objectHeader is OBJECT_DATAGRAM up to the priority.
type objectHeader struct {
	alias, group, object uint64
	kind, priority       byte
	len                  int // of all that each hop writes anew; 0: there is no payload to forward
}

func parseObjectHeader(f *frame, webtransport bool) (h objectHeader) {
	r := reader{rest: f.data}
	if webtransport {
		r.varint()
	}
	kind := r.byte()
	if kind&datagramOther != 0 {
		return h
	}
	parsed := objectHeader{kind: kind, alias: r.vi64(), group: r.vi64()}
	if kind&datagramZeroObjectID == 0 {
		parsed.object = r.vi64()
	}
	if kind&datagramDefaultPriority == 0 {
		parsed.priority = r.byte()
	}
	parsed.len = len(f.data) - len(r.rest)
	if kind&datagramProperties != 0 {
		n := r.vi64()
		if n == 0 || n > uint64(len(r.rest)) {
			return h
		}
		r.skip(int(n))
	}
	if r.short || len(r.rest) == 0 {
		return h
	}
	return parsed
}

// forwardDatagram offers a DATAGRAM frame to the subscribers of its track.
func (r *run) forwardDatagram(publisher uint32, f *frame) {
	h := parseObjectHeader(f, r.machine.Publishers[publisher].Webtransport != 0)
	if h.len == 0 {
		r.count(bpf.IngressReasonFRAME_NOT_MEDIA)
		return
	}
	key, part, version, why := r.claimObject(publisher, &h)
	r.count(why)
	if why != bpf.IngressReasonFRAME_FORWARDED {
		return
	}
	offer := func(i int, sub *bpf.Subscription) { // far below MAX_OBJECT_COPIES
		c := datagramCopy{frame: f, header: &h, sub: sub, outgoing: outgoing{run: r, subscriber: sub.Subscriber}}
		r.countCopy(c.subscriber, c.make())
		if c.gone {
			r.objects.change(key, func(o *bpf.ObjectClaim) { o.State |= 1 << i })
		}
		r.step()
	}
	r.eachSubscription(part, key.Track, version, offer)
	r.objects.change(key, func(o *bpf.ObjectClaim) { o.State |= objectDone })
}

// claimObject puts the object into the map, and then finds the subscriptions, see claim_object.
func (r *run) claimObject(publisher uint32, h *objectHeader) (
	key bpf.ObjectKey, t bpf.Track, version uint64, why bpf.Reason,
) {
	alias := bpf.AliasKey{Alias: h.alias, Publisher: publisher}
	find := func() bool {
		version = atomic.LoadUint64(&r.machine.TrackVersions[key.Track])
		var ok bool
		t, ok = r.findPart(key.Track, version, 0)
		return ok && t.Publisher == publisher && t.Alias == h.alias
	}
	index, ok := r.aliases.get(alias)
	key = bpf.ObjectKey{Group: h.group, Object: h.object, Track: index}
	if !ok || !find() {
		return key, t, version, bpf.IngressReasonFRAME_NO_TRACK
	}
	own, all := r.held(publisher, bpf.IngressShareKindSHARE_OBJECTS)
	if !mayHold(own, all) {
		return key, t, version, bpf.IngressReasonFRAME_SHARE
	}
	r.step()
	err := r.objects.insert(key, bpf.ObjectClaim{Claimed: uint64(r.clock.Now()), Publisher: publisher})
	if _, there := r.objects.get(key); err != nil || !there {
		if there {
			return key, t, version, bpf.IngressReasonFRAME_CLAIMED
		}
		return key, t, version, bpf.IngressReasonFRAME_NO_SLOT
	}
	atomic.AddUint32(own, 1)
	atomic.AddUint32(all, 1)
	r.step()
	known := find()
	if !known || h.group < t.FirstGroup || h.group == t.FirstGroup && h.object < t.FirstObject {
		r.objects.change(key, func(o *bpf.ObjectClaim) { o.State = objectDone })
		if known {
			return key, t, version, bpf.IngressReasonFRAME_FORGOTTEN
		}
		return key, t, version, bpf.IngressReasonFRAME_NO_TRACK
	}
	if h.kind&datagramDefaultPriority != 0 {
		h.priority = byte(t.DefaultPriority)
	}
	r.objects.change(key, func(o *bpf.ObjectClaim) { o.State = uint64(t.Version) << versionShift })
	return key, t, version, bpf.IngressReasonFRAME_FORWARDED
}

// datagramCopy is the copy of a DATAGRAM frame for one subscriber.
type datagramCopy struct {
	outgoing
	frame  *frame
	header *objectHeader
	sub    *bpf.Subscription
}

// make makes and sends the copy, see copy_datagram.
func (c *datagramCopy) make() bpf.Reason {
	h, s := c.header, c.sub
	after := h.group > s.StartGroup || h.group == s.StartGroup && h.object >= s.StartObject
	if s.Forward == 0 || h.group > s.EndGroup || !after {
		return bpf.IngressReasonCOPY_FILTERED
	}
	if why := c.findRoute(len(c.frame.data)); why != bpf.IngressReasonCOPY_SENT {
		return why
	}
	b := c.write()
	c.dataLen, c.packetLen = len(b)-1, 1+int(c.path.DcidLen)+numberLen+len(b)+tagLen
	if uint64(len(b)) > c.path.DatagramLimit || len(b) > maxPayload {
		return bpf.IngressReasonCOPY_TOO_LARGE
	}
	c.step()
	if why := c.admit(uint32(s.Priority)<<8 | uint32(h.priority)); why != bpf.IngressReasonCOPY_SENT {
		return why
	}
	c.step()
	ledger, why := c.beginPacket()
	if why != bpf.IngressReasonCOPY_SENT {
		return why
	}
	c.step()
	c.commit(ledger, 0, claim.NewInfo(0, c.dataLen, c.packetLen-c.dataLen, claim.KindDatagram))
	c.budget -= copyWork + c.dataLen
	c.step()
	return c.sendClone(c.seal(b))
}

// write returns the frame of the copy, see write_object_header.
func (c *datagramCopy) write() []byte {
	h, n := c.header, int(c.path.DatagramPrefixLen)
	kind := h.kind & (datagramProperties | datagramEndOfGroup)
	if h.object == 0 {
		kind |= datagramZeroObjectID
	}
	b := append([]byte{frameDatagram}, c.path.DatagramPrefix[len(c.path.DatagramPrefix)-n:]...)
	b = moqt.AppendVarint(append(b, kind), c.sub.Alias)
	b = moqt.AppendVarint(b, h.group)
	if h.object != 0 {
		b = moqt.AppendVarint(b, h.object)
	}
	return append(append(b, h.priority), c.frame.data[h.len:]...)
}
