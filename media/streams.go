package media

import (
	"time"

	"sluice/claim"
	"sluice/clock"
)

// streamSet is the streams of a connection, by number and by what is due. It is guarded by the sender's lock.
type streamSet struct {
	link     *forwarderLink
	credit   *credit
	acks     *ackFrequency
	counters *Counters

	all      []*Stream          // in no order
	byNumber map[uint32]*Stream // those that were opened
	resets   []*Stream          // whose RESET_STREAM is to be sent
	deadline clock.Time         // of the first SUBGROUP_DELIVERY_TIMEOUT
	adoption adoption           // of streams that the forwarder has opened
}

// add adds a stream.
func (m *streamSet) add(st *Stream) {
	st.slot = len(m.all)
	m.all = append(m.all, st)
}

// register makes acknowledgments find a stream that was opened.
func (m *streamSet) register(st *Stream) {
	if m.byNumber == nil {
		m.byNumber = make(map[uint32]*Stream)
	}
	m.byNumber[st.number] = st
	m.adoption.know(int64(st.number))
	m.counters.Streams++
	if st.onOpen != nil {
		st.onOpen(st.id())
	}
}

// adopt goes on with a stream that the forwarder has opened.
func (m *streamSet) adopt(st *Stream) {
	st.number, st.opened = uint32(st.id()/4), true
	if st.state.Phase.Load() == claim.StreamAbandoned {
		st.state.Phase.Store(claim.StreamOpening)
	} else {
		st.prefixSent = len(st.prefix)
	}
	m.register(st)
	u, unknown := m.adoption.take(st.number)
	switch {
	case u != nil:
		st.delivery = u.delivery
		st.state.Limit.Store(max(st.state.Limit.Load(), uint64(u.limit)))
	case unknown: // all of it is sent again
		_, closed := st.state.Cursor()
		st.markLost(0, st.offset(), closed)
	}
	if u != nil && u.stopped {
		st.end(Result{Outcome: Stopped, Code: u.code}, u.code)
		return
	}
	st.settle()
}

// forget removes a stream that needs no more packets.
func (m *streamSet) forget(st *Stream) {
	m.credit.session.ended(st)
	last := len(m.all) - 1
	m.all[st.slot] = m.all[last]
	m.all[st.slot].slot = st.slot
	m.all[last] = nil
	m.all = m.all[:last]
	if st.opened {
		delete(m.byNumber, st.number)
	}
	st.resetting = false
	if st.shared {
		m.link.conn.CloseStream(st.state)
	}
}

// find returns the stream with an id, or its record until it is adopted, or neither.
func (m *streamSet) find(id int64) (*Stream, *unadopted) {
	number := uint32(id / 4)
	st := m.byNumber[number]
	switch {
	case st != nil && st.id() == id:
		return st, nil
	case st == nil && m.adoption.isOurs(id):
		return nil, m.adoption.find(number)
	}
	return nil, nil
}

// acked notes that the frame of a packet has arrived.
func (m *streamSet) acked(e claim.Entry) {
	st := m.byNumber[e.Stream()]
	switch e.Kind() {
	case claim.KindStream:
		if st != nil {
			st.acknowledge(e.Offset, e.End(e.Offset), e.Has(claim.FlagFIN))
		} else if u := m.adoption.find(e.Stream()); u != nil {
			u.markAcked(e.Offset, e.End(e.Offset), e.Has(claim.FlagFIN))
		}
	case claim.KindReset:
		if st != nil && st.resetting {
			m.forget(st)
		}
	case claim.KindAckFrequency:
		m.acks.markAcked(uint64(e.Offset))
	}
}

// lost schedules the frame of a packet again, if it is still needed.
func (m *streamSet) lost(e claim.Entry) {
	st := m.byNumber[e.Stream()]
	switch e.Kind() {
	case claim.KindStream:
		if st != nil {
			st.lose(e.Offset, e.End(e.Offset), e.Has(claim.FlagFIN))
		} else if u := m.adoption.find(e.Stream()); u != nil {
			u.markLost(e.Offset, e.End(e.Offset), e.Has(claim.FlagFIN))
		}
	case claim.KindReset:
		if st != nil && st.resetting {
			m.resets = append(m.resets, st)
		}
	case claim.KindBlocked:
		m.credit.lost(byte(e.Offset), st)
	case claim.KindAckFrequency:
		m.acks.markLost(uint64(e.Offset))
	}
}

// expire resets the streams whose SUBGROUP_DELIVERY_TIMEOUT has expired.
func (m *streamSet) expire(now clock.Time) {
	if now < m.deadline {
		return
	}
	m.deadline = clock.Never
	for i := len(m.all) - 1; i >= 0; i-- {
		st := m.all[i]
		if st.deadline <= now {
			st.giveUp(SubgroupTimedOut)
		}
		m.deadline = min(m.deadline, st.deadline)
	}
}

// expireUnacknowledged resets the streams that have sent something that is not acknowledged for longer than timeout,
// and forgets those whose RESET_STREAM is not acknowledged either. A negative timeout never expires.
func (m *streamSet) expireUnacknowledged(now clock.Time, timeout time.Duration) {
	for i := len(m.all) - 1; i >= 0 && timeout >= 0; i-- {
		st := m.all[i]
		switch {
		case !st.overdue(now, timeout):
		case st.resetting:
			m.counters.count(ResetUnacknowledged)
			m.forget(st)
		default:
			st.giveUp(Unacknowledged)
		}
	}
}

// close ends all streams.
func (m *streamSet) close() {
	for i := len(m.all) - 1; i >= 0; i-- {
		st := m.all[i]
		if st.reader != nil {
			st.finish(Result{Outcome: ConnectionClosed})
		}
		m.forget(st)
	}
	m.resets = nil
}
