package programs

import (
	"sluice/claim"
	"sluice/fastpath/bpf"
)

// outgoing is a packet for a subscriber, and what it claims.
type outgoing struct {
	*run
	subscriber         uint32
	path               bpf.Path
	conn               *claim.ConnState
	number, generation uint64
	dataLen, packetLen int
	gone               bool // user space is not to send it: it is on its way, or a queue has dropped it
}

// findRoute finds where the copy of a frame goes, if the run may make one more, see copy_stream and copy_datagram.
func (o *outgoing) findRoute(frameLen int) bpf.Reason {
	var ok bool
	if o.path, ok = o.findPath(o.subscriber); !ok {
		return bpf.IngressReasonCOPY_NO_PATH
	}
	if !o.knows(remoteOf(&o.path)) {
		return bpf.IngressReasonCOPY_NO_NEIGHBOR
	}
	if copyWork+frameLen > o.budget {
		return bpf.IngressReasonCOPY_BUDGET
	}
	o.conn = &o.machine.Conns[o.subscriber]
	return bpf.IngressReasonCOPY_SENT
}

// admit asks the policy about the packet, see admit_claim.
func (o *outgoing) admit(level uint32) bpf.Reason {
	why := reasonOf(o.conn.Admit(claim.Admission{Level: level, Size: o.packetLen, Now: o.clock.Now()}))
	if why == bpf.IngressReasonCOPY_WINDOW || why == bpf.IngressReasonCOPY_PACED {
		o.conn.LimitedTo.Store(o.conn.NextPN.Load() & claim.NumberMask)
	}
	return why
}

// beginPacket takes a packet number, see begin_packet.
func (o *outgoing) beginPacket() (ledger claim.Ledger, why bpf.Reason) {
	if ledger = o.ledgerOf(o.subscriber); ledger != nil && o.conn.Room(ledger) {
		var ok bool
		if o.number, o.generation, ok = o.conn.Begin(ledger); ok {
			return ledger, bpf.IngressReasonCOPY_SENT
		}
	}
	if o.conn.NextPN.Load()&claim.NumbersClosed != 0 {
		return nil, bpf.IngressReasonCOPY_NO_PATH
	}
	return nil, bpf.IngressReasonCOPY_LEDGER_FULL
}

// commit writes the record, see commit_packet.
func (o *outgoing) commit(ledger claim.Ledger, offset int64, info claim.Info) {
	now := o.clock.Now()
	o.conn.Charge(o.packetLen, now)
	o.step()
	o.conn.Packets.Add(1)
	o.conn.Bytes.Add(uint64(o.packetLen))
	o.conn.Commit(ledger, o.number, now, offset, info)
}

// prepare fills the claim for the body of the frame.
func (c *streamCopy) prepare() {
	c.from, c.to = int64(c.frame.offset)+int64(c.header), int64(c.frame.end())
	c.measure(c.state.ID.Load(), c.from+c.state.Shift()-int64(len(c.prefix)))
}

// measure sets how long the packet is, on a stream with an id and from an offset on.
func (c *streamCopy) measure(id uint64, offset int64) {
	c.offset = offset
	c.dataLen = len(c.prefix) + len(c.frame.data) - c.header
	c.packetLen = 1 + int(c.path.DcidLen) + numberLen + streamHeaderLen(id, offset) + c.dataLen + tagLen
}

// claim looks, admits and takes, see claim_copy and shared/claim.h.
func (c *streamCopy) claim() bpf.Reason {
	st, s := c.state, c.conn
	switch {
	case c.dataLen == 0 && !c.frame.fin:
		return bpf.IngressReasonCOPY_EMPTY
	case st.Next.Load() != uint64(c.from):
		return bpf.IngressReasonCOPY_OUT_OF_ORDER
	case uint64(c.to)+st.Delta.Load() > st.Limit.Load():
		return bpf.IngressReasonCOPY_STREAM_CREDIT
	}
	c.step()
	if !c.opened {
		if why := c.admit(st.Level.Load()); why != bpf.IngressReasonCOPY_SENT {
			return why
		}
	}
	c.step()
	ledger, why := c.beginPacket()
	if why != bpf.IngressReasonCOPY_SENT {
		return why
	}
	c.step()
	if s.TakeData(int64(c.dataLen), true, 0) == 0 && c.dataLen > 0 {
		s.Abort()
		return bpf.IngressReasonCOPY_CONNECTION_CREDIT
	}
	c.step()
	if !st.Claim(c.from, c.to, c.frame.fin) { // the commit point
		s.ReturnData(int64(c.dataLen))
		c.step()
		s.Abort()
		return bpf.IngressReasonCOPY_OUT_OF_ORDER
	}
	c.step()
	flags := uint8(claim.KindStream)
	if c.frame.fin {
		flags |= claim.FlagFIN
	}
	info := claim.NewInfo(uint32(st.ID.Load()/4), c.dataLen, c.packetLen-c.dataLen, flags)
	c.commit(ledger, c.offset, info)
	return bpf.IngressReasonCOPY_SENT
}

// reasonOf returns why a copy does not go; COPY_SENT: it does.
func reasonOf(v claim.Verdict) bpf.Reason {
	switch v {
	case claim.Admitted:
		return bpf.IngressReasonCOPY_SENT
	case claim.BeyondThreshold:
		return bpf.IngressReasonCOPY_PRIORITY
	case claim.BucketLow:
		return bpf.IngressReasonCOPY_BUCKET
	case claim.TooLarge:
		return bpf.IngressReasonCOPY_TOO_LARGE
	case claim.WindowFull:
		return bpf.IngressReasonCOPY_WINDOW
	case claim.Paced:
		return bpf.IngressReasonCOPY_PACED
	}
	return bpf.IngressReasonCOPY_POLICY
}
