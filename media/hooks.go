package media

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/internal/packet"
	"sluice/internal/udp"
)

var _ quic.Hooks = Hooks{}

// Hooks are what quic-go calls of a [Sender].
type Hooks struct{ *Sender }

// NextUniStream implements [quic.Hooks].
func (s Hooks) NextUniStream() (int64, bool) {
	id, ok := s.allocator.state.Load().TakeStream()
	if ok && s.loop.forwarder != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams.adoption.know(id / 4)
	}
	return id, ok
}

// ReturnData implements [quic.Hooks]. Streams may have found no credit while quic-go had it.
func (s Hooks) ReturnData(n int64) {
	if q := s.allocator.quic.Load(); q != nil {
		q.last.Add(-n)
	}
	if s.allocator.state.Load().ReturnData(n); n > 0 && s.credit.wanted.Load() {
		s.shard.enqueue(s.Sender)
	}
}

// Keys implements [quic.Hooks].
func (s Hooks) Keys(generation uint64, suite uint16, version uint32, read, write []byte) {
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
		s.loop.log.Error("media cannot be sent on a connection", "err", err)
		return
	}
	if s.closed {
		return
	}
	s.read.newKeys(generation, opening)
	if key != nil {
		s.keys.install(generation, suite, key, s.state)
		s.shard.enqueue(s.Sender)
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
func (s Hooks) KeyUpdateDue() bool { return s.keys.due.Load() }

// PeerParameters implements [quic.Hooks]. It is called a second time if the peer had sent remembered ones before.
func (s Hooks) PeerParameters(p quic.PeerParameters) {
	s.mu.Lock()
	defer s.mu.release()
	s.params = p
	s.acks.begin(p)
	s.credit.begin(p)
}

// MaxData implements [quic.Hooks].
func (s Hooks) MaxData(n int64) {
	s.mu.Lock()
	defer s.mu.release()
	if s.credit.setData(n) {
		s.shard.enqueue(s.Sender)
	}
}

// MaxStreams implements [quic.Hooks].
func (s Hooks) MaxStreams(n int64) {
	s.mu.Lock()
	defer s.mu.release()
	if s.credit.setStreams(uint64(n)) {
		s.shard.enqueue(s.Sender)
	}
}

// MaxStreamData implements [quic.Hooks].
func (s Hooks) MaxStreamData(id, n int64) {
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
			s.shard.enqueue(s.Sender)
		}
	}
}

// StopSending implements [quic.Hooks]: the peer's code goes into RESET_STREAM (RFC 9000 §3.5).
func (s Hooks) StopSending(id int64, code uint64) {
	s.mu.Lock()
	defer s.mu.release()
	st, u := s.streams.find(id)
	switch {
	case u != nil:
		u.stopped, u.code = true, code
	case st != nil:
		st.end(Result{Outcome: Stopped, Code: code}, code)
		s.shard.enqueue(s.Sender)
	}
}

// ConnectionID implements [quic.Hooks].
func (s Hooks) ConnectionID(id quic.ConnectionID, usable bool) {
	if s.loop.forwarder == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.release()
	s.link.connectionID(id, usable)
}

// Received implements [quic.Hooks].
func (s Hooks) Received(largest int64, phase int, at time.Time) {
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
func (s Hooks) Path(p quic.PathInfo) {
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
		if !s.shard.register(s.Sender) {
			s.closeLocked()
			return
		}
	case s.path.route.differs(old):
		s.changePathLocked()
	case s.path.route.Remote() != old.Remote(): // probes that nobody answered went to the old port
		s.recovery.ptoCount = 0
	}
	s.link.setPath(s.path.route)
	s.shard.enqueue(s.Sender)
}

// Closed implements [quic.Hooks].
func (s Hooks) Closed(error) {
	s.mu.Lock()
	defer s.mu.release()
	s.closeLocked()
	s.shard.unregister(s.Sender)
}

// MaxUDPPayloadSize implements [quic.Hooks].
func (s Hooks) MaxUDPPayloadSize() int { return s.cfg.MaxUDPPayloadSize }

// Acked implements [quic.Hooks].
func (s Hooks) Acked(a *quic.AckInfo) (rtt time.Duration, err error) {
	s.mu.Lock()
	fw := s.link.conn
	rtt, err = s.ackedLocked(s.loop.clock.At(a.Received), a)
	s.mu.release()
	if fw != nil {
		fw.Acknowledged()
	}
	return rtt, err
}

// Take implements [quic.Hooks]: it opens a packet that the socket's reader offers, and processes it if it has nothing
// but an ACK frame and PADDING that quic-go need not see. quic-go takes several times as long: it wakes the
// connection's goroutine for each packet.
func (s Hooks) Take(p quic.OfferedPacket) bool {
	s.mu.Lock()
	fw := s.link.conn
	read := s.readLocked(&p)
	s.mu.release()
	if read && fw != nil {
		fw.Acknowledged()
	}
	return read
}

// OwnInFlight implements [quic.Hooks].
func (s Hooks) OwnInFlight(own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read.own = own
}

// ReceivedElsewhere implements [quic.Hooks].
func (s Hooks) ReceivedElsewhere() (*quic.ReceivedElsewhere, error) {
	if !s.read.news.Load() {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read.tell(s.loop.clock)
}
