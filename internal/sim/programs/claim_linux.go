package programs

import (
	"sluice/claim"
	"sluice/fastpath/bpf"
)

// claimed is what a copy claims.
type claimed struct {
	from, to           int64 // log offsets
	number, generation uint64
	offset             int64 // in the stream, of what the packet has
	dataLen, packetLen int
}

// prepare fills the claim for the body of the frame.
func (c *streamCopy) prepare() {
	body := len(c.frame.data) - c.header
	c.from, c.to = int64(c.frame.offset)+int64(c.header), int64(c.frame.end())
	c.dataLen = len(c.prefix) + body
	c.offset = c.to + c.state.Shift() - int64(c.dataLen)
	head := 1 + int(c.path.DcidLen) + numberLen + streamHeaderLen(c.state.ID.Load(), c.offset)
	c.packetLen = head + c.dataLen + tagLen
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
	admission := claim.Admission{Level: st.Level.Load(), Size: c.packetLen, Now: c.clock.Now()}
	if why := reasonOf(s.Admit(admission)); why != bpf.IngressReasonCOPY_SENT {
		if why == bpf.IngressReasonCOPY_WINDOW || why == bpf.IngressReasonCOPY_PACED {
			s.LimitedTo.Store(s.NextPN.Load() & claim.NumberMask)
		}
		return why
	}
	c.step()
	ledger := c.ledgerOf(c.key.Subscriber)
	if ledger == nil || !s.Room(ledger) {
		return c.noNumber()
	}
	var ok bool
	if c.number, c.generation, ok = s.Begin(ledger); !ok {
		return c.noNumber()
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
	c.commit(ledger)
	return bpf.IngressReasonCOPY_SENT
}

func (c *streamCopy) noNumber() bpf.Reason {
	if c.conn.NextPN.Load()&claim.NumbersClosed != 0 {
		return bpf.IngressReasonCOPY_NO_PATH
	}
	return bpf.IngressReasonCOPY_LEDGER_FULL
}

func (c *streamCopy) commit(ledger claim.Ledger) {
	now, flags := c.clock.Now(), uint8(claim.KindStream)
	if c.frame.fin {
		flags |= claim.FlagFIN
	}
	c.conn.Charge(c.packetLen, now)
	c.step()
	c.conn.Packets.Add(1)
	c.conn.Bytes.Add(uint64(c.packetLen))
	c.conn.Commit(ledger, c.number, now, c.offset,
		claim.NewInfo(uint32(c.state.ID.Load()/4), c.dataLen, c.packetLen-c.dataLen, flags))
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
