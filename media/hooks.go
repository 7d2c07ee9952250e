package media

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/clock"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

var _ quic.Hooks = (*Sender)(nil)

// NextUniStream implements [quic.Hooks].
func (s *Sender) NextUniStream() (int64, bool) {
	id, ok := s.allocator.state.Load().TakeStream()
	if ok && s.loop.forwarder != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams.adoption.know(id / 4)
	}
	return id, ok
}

// ReturnData implements [quic.Hooks]. Streams may have found no credit while quic-go had it.
func (s *Sender) ReturnData(n int64) {
	if q := s.allocator.quic.Load(); q != nil {
		q.last.Add(-n)
	}
	if s.allocator.state.Load().ReturnData(n); n > 0 && s.credit.wanted.Load() {
		s.shard.enqueue(s)
	}
}

// Keys implements [quic.Hooks].
func (s *Sender) Keys(generation uint64, suite uint16, version uint32, read, write []byte) {
	key, err := newKey(generation, suite, version, write)
	opening, rerr := newKey(generation, suite, version, read)
	err = errors.Join(err, rerr)
	s.mu.Lock()
	defer s.mu.release()
	if err == nil {
		err = s.link.setKeys(generation, suite, version, read, write)
		if err != nil {
			s.closeLocked()
		}
	}
	if err != nil {
		s.loop.log.Error("media cannot be sent on a connection", "error", err)
		return
	}
	if s.closed {
		return
	}
	s.read.newKeys(generation, opening)
	if key != nil {
		s.keys.install(generation, suite, key, s.state)
		s.shard.enqueue(s)
	}
}

// newKey derives the key of a secret, or returns nil if there is none.
func newKey(generation uint64, suite uint16, version uint32, secret []byte) (*packet.Key, error) {
	if secret == nil {
		return nil, nil
	}
	return packet.NewKey(generation, suite, version, secret)
}

// KeyUpdateDue implements [quic.Hooks].
func (s *Sender) KeyUpdateDue() bool { return s.keys.due.Load() }

// PeerParameters implements [quic.Hooks]. It is called a second time if the peer had sent remembered ones before.
func (s *Sender) PeerParameters(p quic.PeerParameters) {
	s.mu.Lock()
	defer s.mu.release()
	s.params = p
	s.acks.begin(p)
	s.credit.begin(p)
}

// MaxData implements [quic.Hooks].
func (s *Sender) MaxData(n int64) {
	s.mu.Lock()
	defer s.mu.release()
	if s.credit.setData(n) {
		s.shard.enqueue(s)
	}
}

// MaxStreams implements [quic.Hooks].
func (s *Sender) MaxStreams(n int64) {
	s.mu.Lock()
	defer s.mu.release()
	if s.credit.setStreams(uint64(n)) {
		s.shard.enqueue(s)
	}
}

// MaxStreamData implements [quic.Hooks].
func (s *Sender) MaxStreamData(id, n int64) {
	s.mu.Lock()
	defer s.mu.release()
	st, u := s.streams.find(id)
	switch {
	case u != nil:
		u.limit = max(u.limit, n)
	case st != nil && uint64(n) > st.state.Limit.Load():
		st.state.Limit.Store(uint64(n))
		if st.park == parkedStream {
			s.credit.releaseStream(st)
			s.shard.enqueue(s)
		}
	}
}

// StopSending implements [quic.Hooks]: the peer's code goes into RESET_STREAM (RFC 9000 §3.5).
func (s *Sender) StopSending(id int64, code uint64) {
	s.mu.Lock()
	defer s.mu.release()
	st, u := s.streams.find(id)
	switch {
	case u != nil:
		u.stopped, u.code = true, code
	case st != nil:
		st.end(Result{Outcome: Stopped, Code: code}, code)
		s.shard.enqueue(s)
	}
}

// ConnectionID implements [quic.Hooks].
func (s *Sender) ConnectionID(id quic.ConnectionID, usable bool) {
	if s.loop.forwarder == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.release()
	s.link.connectionID(id, usable)
}

// Received implements [quic.Hooks].
func (s *Sender) Received(largest int64, phase int, at time.Time) {
	if s.loop.measuring.Load() {
		s.lastReceived.Store(int64(s.loop.clock.At(at)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link.conn != nil {
		s.link.conn.Received(largest)
	}
	s.read.received(largest, phase)
}

// Path implements [quic.Hooks].
func (s *Sender) Path(p quic.PathInfo) {
	remote, ok := p.Remote.(*net.UDPAddr)
	if !ok {
		s.loop.log.Error("media cannot be sent: not a UDP address", "address", p.Remote)
		return
	}
	s.mu.Lock()
	defer s.mu.release()
	if s.closed {
		return
	}
	old, mtu := s.path.route, min(p.MTU, udp.MaxPacket)
	if limit := s.params.MaxUDPPayloadSize; limit > 0 {
		mtu = min(mtu, int(limit))
	}
	s.path.bigLost = 0
	s.ledger.setMTU(mtu)
	if old == nil {
		s.control.start(s.cfg.NewController(mtu))
		s.path.mark = s.control.mark()
	}
	s.path.set(route{
		Route:      udp.NewRoute(s.shard.sock, remote.AddrPort(), slices.Clone(p.OOB)),
		destConnID: bytes.Clone(p.DestConnID.Bytes()),
		local:      addrPort(p.Local),
	})
	switch {
	case old == nil:
		s.ecn.begin()
		if !s.shard.register(s) {
			s.closeLocked()
			return
		}
	case s.path.route.differs(old):
		s.changePathLocked()
	}
	s.link.setPath(s.path.route)
	s.shard.enqueue(s)
}

// changePathLocked forgets the measurements of the old path (RFC 9000 §9.4).
func (s *Sender) changePathLocked() {
	if len(s.ledger.records) > 0 {
		s.ledger.forgetPath()
	}
	s.recovery.reset()
	s.control.reset(s.ledger.mtu)
	s.ecn.begin()
}

// Closed implements [quic.Hooks].
func (s *Sender) Closed(error) {
	s.mu.Lock()
	defer s.mu.release()
	s.closeLocked()
	s.shard.unregister(s)
}

// PeerMaxUDPPayloadSize returns the max_udp_payload_size that the peer has advertised, or 0 if that is not known yet.
func (s *Sender) PeerMaxUDPPayloadSize() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.params.MaxUDPPayloadSize)
}

// MaxUDPPayloadSize implements [quic.Hooks].
func (s *Sender) MaxUDPPayloadSize() int { return s.cfg.MaxUDPPayloadSize }

// Acked implements [quic.Hooks].
func (s *Sender) Acked(a *quic.AckInfo) (rtt time.Duration, err error) {
	s.mu.Lock()
	fw := s.link.conn
	rtt, err = s.ackedLocked(s.loop.clock.At(a.Received), a)
	s.mu.release()
	if fw != nil {
		fw.Acknowledged()
	}
	return rtt, err
}

// ackedLocked processes an ACK frame.
func (s *Sender) ackedLocked(now clock.Time, a *quic.AckInfo) (time.Duration, error) {
	if s.closed || len(s.ledger.records) == 0 || len(a.Ranges) == 0 {
		return 0, nil
	}
	s.counters.Acks++
	rtt, lost, err := s.recovery.receive(now, a)
	s.observer.reportLoss(lost)
	if err == nil && s.turn.wanted() {
		s.shard.enqueue(s)
	}
	return rtt, err
}
