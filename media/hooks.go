package media

import (
	"bytes"
	"net"
	"slices"
	"sluice/claim"
	"sluice/congestion"
	"sluice/internal/packet"
	"sluice/internal/udp"
	"time"

	"github.com/quic-go/quic-go"
)

var _ quic.Hooks = (*Sender)(nil)

// NextPacketNumber implements [quic.Hooks].
func (s *Sender) NextPacketNumber() int64 {
	return int64((s.common.Load().NextPN.Add(1) - 1) & claim.NumberMask)
}

// PeekPacketNumber implements [quic.Hooks].
func (s *Sender) PeekPacketNumber() int64 {
	return int64(s.common.Load().NextPN.Load() & claim.NumberMask)
}

// NextUniStream implements [quic.Hooks].
func (s *Sender) NextUniStream() (int64, bool) {
	id, ok := s.common.Load().TakeStream()
	if ok && s.loop.forwarder != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.know(id / 4)
	}
	return id, ok
}

// PeekUniStream implements [quic.Hooks].
func (s *Sender) PeekUniStream() int64 { return int64(s.common.Load().NextUni.Load()) }

// TakeData implements [quic.Hooks].
func (s *Sender) TakeData(n int64, all bool) int64 {
	state := s.common.Load()
	return state.TakeData(n, all, state.Reserve.Load())
}

// ReturnData implements [quic.Hooks]. Streams may have found no credit while it was taken.
func (s *Sender) ReturnData(n int64) {
	if s.common.Load().ReturnData(n); n > 0 && s.dataWanted.Load() {
		s.shard.enqueue(s)
	}
}

// DataAvailable implements [quic.Hooks].
func (s *Sender) DataAvailable() int64 {
	state := s.common.Load()
	return state.DataAvailable() + int64(state.Reserve.Load())
}

// Keys implements [quic.Hooks].
func (s *Sender) Keys(phase uint64, suite uint16, version uint32, read, write []byte) {
	s.handOverKeys(phase, suite, version, read, write)
	if write == nil {
		return
	}
	key, err := packet.NewKey(phase, suite, version, write)
	if err != nil {
		s.loop.log.Error("media cannot be sent on a connection", "error", err)
		return
	}
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return
	}
	s.suite = suite
	s.seal.Install(phase, key)
	s.keyLimit = key.Limit()
	if phase > 0 {
		// The key is in its place before a packet number can ask for it.
		s.keyFirst = s.state.NextPN.Add(1<<claim.GenerationShift) & claim.NumberMask
	}
	s.keyDue.Store(false)
	s.shard.enqueue(s)
}

// KeyUpdateDue implements [quic.Hooks].
func (s *Sender) KeyUpdateDue() bool { return s.keyDue.Load() }

// maxReserve is more than control messages need in a round trip.
const maxReserve = 4 << 10

// PeerParameters implements [quic.Hooks]. It is called a second time if the peer had sent remembered ones before.
func (s *Sender) PeerParameters(p quic.PeerParameters) {
	s.mu.Lock()
	defer s.unlock()
	s.params = p
	s.state.Reserve.Store(uint64(min(p.MaxData/8, maxReserve)))
	s.state.SetDataLimit(p.MaxData)
	s.state.MaxUni.Store(max(s.state.MaxUni.Load(), uint64(p.MaxStreamsUni)))
}

// MaxData implements [quic.Hooks].
func (s *Sender) MaxData(n int64) {
	s.mu.Lock()
	defer s.unlock()
	if s.state.SetDataLimit(n) {
		s.unparkWake(parkedConn)
	}
}

// MaxStreams implements [quic.Hooks].
func (s *Sender) MaxStreams(n int64) {
	s.mu.Lock()
	defer s.unlock()
	if uint64(n) > s.state.MaxUni.Load() {
		s.state.MaxUni.Store(uint64(n))
		s.unparkWake(parkedID)
	}
}

func (s *Sender) unparkWake(p parking) {
	if len(s.parked[p]) > 0 {
		s.unpark(p)
		s.shard.enqueue(s)
	}
}

// MaxStreamData implements [quic.Hooks].
func (s *Sender) MaxStreamData(id, n int64) {
	s.mu.Lock()
	defer s.unlock()
	st := s.byNumber[uint32(id/4)]
	if st == nil {
		if o := s.unadoptedStream(uint32(id / 4)); o != nil {
			o.limit = max(o.limit, n)
		}
		return
	}
	if st.id() != id || uint64(n) <= st.state.Limit.Load() {
		return
	}
	st.state.Limit.Store(uint64(n))
	if st.park == parkedStream {
		s.unparkStream(st)
		s.shard.enqueue(s)
	}
}

// StopSending implements [quic.Hooks]: the peer's code goes into RESET_STREAM (RFC 9000 §3.5).
func (s *Sender) StopSending(id int64, code uint64) {
	s.mu.Lock()
	defer s.unlock()
	st := s.byNumber[uint32(id/4)]
	if st == nil {
		if o := s.unadoptedStream(uint32(id / 4)); o != nil {
			o.stopped, o.code = true, code
		}
		return
	}
	if st.id() == id {
		s.reset(st, Result{Outcome: Stopped, Code: code}, code)
		s.shard.enqueue(s)
	}
}

// Path implements [quic.Hooks].
func (s *Sender) Path(p quic.PathInfo) {
	remote, ok := p.Remote.(*net.UDPAddr)
	if !ok {
		s.loop.log.Error("media cannot be sent: not a UDP address", "address", p.Remote)
		return
	}
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return
	}
	old, mtu := s.route, min(p.MTU, udp.MaxPacket)
	if limit := s.params.MaxUDPPayloadSize; limit > 0 {
		mtu = min(mtu, int(limit))
	}
	s.bigLost = 0
	s.setMTU(mtu)
	s.route = &route{
		Route:      udp.NewRoute(s.shard.sock, remote.AddrPort(), slices.Clone(p.OOB)),
		destConnID: bytes.Clone(p.DestConnID.Bytes()),
	}
	switch {
	case old == nil:
		s.control = s.cfg.NewController(s.mtu)
		s.publishWindow()
		if !s.shard.register(s) {
			s.close()
			return
		}
	case old.Remote().Addr() != s.route.Remote().Addr():
		s.changePath()
	}
	s.handOverPath(p, s.route.destConnID)
	s.shard.enqueue(s)
}

// setMTU sets the size of the largest packet. Other senders may send as soon as they see one, so there must be a ledger first.
func (s *Sender) setMTU(mtu int) {
	s.mtu = mtu
	if len(s.ledger) > 0 {
		s.state.MTU.Store(uint32(mtu))
	}
}

// changePath forgets what was measured on the old path (RFC 9000 §9.4). A change of the port alone is no other path: it is most often
// another binding of the same NAT.
func (s *Sender) changePath() {
	if len(s.ledger) > 0 {
		s.emptyPath()
	}
	s.rtt, s.pacer, s.ptoCount, s.reordering = congestion.RTT{}, congestion.Pacer{}, 0, packetThreshold
	s.lostRecently = nil
	s.control.Reset(s.mtu)
	s.publishWindow()
}

// emptyPath takes what is outstanding out of flight: it is on another path, and says nothing about this one.
func (s *Sender) emptyPath() {
	next := s.state.NextPN.Load() & claim.NumberMask
	for n := s.low; n < next; n++ {
		if e, ok := s.ledger.Read(n); ok && e.Live() && !e.Uncounted() {
			s.ledger.Mark(e, claim.FlagOldPath)
			s.state.InFlight.Add(uint64(-e.Size()))
		}
	}
	s.advance(next)
}

// Closed implements [quic.Hooks].
func (s *Sender) Closed(error) {
	s.mu.Lock()
	defer s.unlock()
	s.close()
	s.shard.unregister(s)
}

// close ends all streams, and forgets the keys.
func (s *Sender) close() {
	if s.closed {
		return
	}
	s.closed = true
	s.route = nil
	s.state.MTU.Store(0)
	for i := len(s.streams) - 1; i >= 0; i-- {
		st := s.streams[i]
		if st.reader != nil {
			s.finish(st, Result{Outcome: ConnectionClosed})
		}
		s.forget(st)
	}
	s.seal.Erase()
	s.resets, s.blocked, s.parked, s.ledger = nil, nil, [len(s.parked)][]*Stream{}, nil
	for _, q := range s.ready.beyond(-1) {
		s.dropDatagram(q, DatagramClosed)
	}
	s.loop.retire(s.counted())
	if s.forwarder == nil {
		s.loop.memory.FreeConn(s.state)
	}
	s.disconnectForwarder()
}

// MaxUDPPayloadSize implements [quic.Hooks].
func (s *Sender) MaxUDPPayloadSize() int { return s.cfg.MaxUDPPayloadSize }

// Acked implements [quic.Hooks].
func (s *Sender) Acked(a *quic.AckInfo) (rtt time.Duration, err error) {
	s.mu.Lock()
	fw := s.forwarder
	if !s.closed && len(s.ledger) > 0 && len(a.Ranges) > 0 {
		rtt, err = s.receiveAck(a)
	}
	s.unlock()
	if fw != nil {
		fw.Acknowledged()
	}
	return rtt, err
}

// route is where packets go. It does not change, because batches refer to it: another path gets another route.
type route struct {
	*udp.Route
	destConnID []byte
}
