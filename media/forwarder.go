package media

import (
	"crypto/tls"
	"net"
	"net/netip"

	"github.com/quic-go/quic-go"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/track"
)

// Second returns the connection as the forwarder knows it; nil if that does not take part.
func (s *Sender) Forwarder() claim.ForwarderConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forwarder
}

// SetSession tells the forwarder about the session. Until it is called only this process sends.
func (s *Sender) SetSession(c claim.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forwarder == nil {
		return
	}
	if c.ErrorCode != nil {
		s.nobody.errorCode = c.ErrorCode
	}
	s.forwarder.SetSession(c)
}

// share moves the state to where the forwarder sees it. It is called before anybody but the connection's run loop knows of it.
func (s *Sender) connectForwarder() {
	fw := s.loop.forwarder
	if fw == nil || s.cfg.Client || s.closed {
		return
	}
	shared := fw.NewConn()
	if shared == nil {
		return
	}
	s.move(shared)
	s.nobody = &Subscription{sender: s, errorCode: func(code uint64) uint64 { return code }}
	s.forwarder = fw.Connect(shared, s.abandon)
	for _, id := range s.connIDs {
		s.forwarder.ConnectionID(id.Bytes(), true)
	}
	s.connIDs = nil
}

// move makes "to" the state. Nobody else changes it meanwhile, or what they change is of no interest any more.
func (s *Sender) move(to *claim.ConnState) {
	s.state.MoveTo(to)
	s.state = to
	s.common.Store(to)
}

// unshare ends the forwarder's part.
func (s *Sender) disconnectForwarder() {
	if s.forwarder == nil {
		return
	}
	s.forwarder.Close()
	s.forwarder, s.unadopted, s.known = nil, nil, nil
	s.move(new(claim.ConnState)) // quic-go still takes numbers
}

// ConnectionID implements [quic.Hooks].
func (s *Sender) ConnectionID(id quic.ConnectionID, usable bool) {
	if s.loop.forwarder == nil {
		return
	}
	s.mu.Lock()
	defer s.unlock()
	switch {
	case s.forwarder != nil:
		s.forwarder.ConnectionID(id.Bytes(), usable)
	case usable:
		s.connIDs = append(s.connIDs, id)
	}
}

// Received implements [quic.Hooks].
func (s *Sender) Received(largest int64) {
	if s.loop.forwarder == nil {
		return
	}
	if fw := s.Forwarder(); fw != nil {
		fw.Received(largest)
	}
}

// shareKeys hands keys to the forwarder, which knows one cipher suite and one version. Write keys come first (RFC 9001 §5.7), so that
// is when it gets to know of the connection.
func (s *Sender) handOverKeys(phase uint64, suite uint16, version uint32, read, write []byte) {
	if s.loop.forwarder == nil || suite != tls.TLS_CHACHA20_POLY1305_SHA256 || version != packet.Version1 {
		return
	}
	s.mu.Lock()
	defer s.unlock()
	if phase == 0 && write != nil {
		s.connectForwarder()
	}
	if s.forwarder == nil {
		return
	}
	for _, d := range [...]struct {
		secret []byte
		set    func(uint64, *claim.PacketKeys)
	}{{read, s.forwarder.ReadKeys}, {write, s.forwarder.WriteKeys}} {
		if d.secret == nil {
			continue
		}
		var k claim.PacketKeys
		if err := deriveKeys(&k, suite, version, d.secret); err != nil {
			s.loop.log.Error("media cannot be sent on a connection", "error", err)
			s.close()
			return
		}
		d.set(phase, &k)
		k = claim.PacketKeys{}
	}
}

func deriveKeys(k *claim.PacketKeys, suite uint16, version uint32, secret []byte) error {
	m, err := packet.Derive(suite, version, secret)
	copy(k.Key[:], m.Key)
	copy(k.IV[:], m.IV)
	copy(k.HeaderProtection[:], m.HeaderProtection)
	m.Erase()
	return err
}

// sharePath tells the forwarder where packets go, after there is a ledger.
func (s *Sender) handOverPath(p quic.PathInfo, destConnID []byte) {
	if s.forwarder == nil || len(s.ledger) == 0 && !s.growLedger() {
		return
	}
	path := claim.Path{Remote: s.route.Remote(), OOB: s.route.OOB(), DestConnID: destConnID, MaxStreamData: uint64(s.params.MaxStreamDataUni),
		MaxDatagramFrame: uint64(max(s.params.MaxDatagramFrameSize, 0))}
	if local, ok := p.Local.(*net.UDPAddr); ok {
		a := local.AddrPort()
		path.Local = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	s.forwarder.SetPath(path)
}

// sharedState asks the forwarder for a stream's state and returns a reader of the log. If the forwarder has opened the stream, cfg
// becomes what that has begun with.
func (s *Sender) sharedState(cfg *StreamConfig) (state *claim.StreamState, opened bool, r *track.Reader, err error) {
	if fw := s.Forwarder(); fw != nil && cfg.PublisherStream != nil {
		state, opened = fw.OpenStream(cfg.PublisherStream)
	}
	if opened {
		up := cfg.PublisherStream
		if r, err = cfg.Log.NewReader(up.Start, nil); err == nil && state.Shift() == int64(len(up.Prefix))-up.Start {
			cfg.Prefix, cfg.Start = up.Prefix, up.Start
			return state, true, r, nil
		}
		if err == nil {
			r.Close()
		}
		s.abandon(state)
		state, opened = nil, false
	}
	if r, err = cfg.Log.NewReader(cfg.Start, nil); err != nil {
		s.giveBack(state, false)
	}
	return state, false, r, err
}

// giveBack returns a stream's state that is not going to be used.
func (s *Sender) giveBack(state *claim.StreamState, opened bool) {
	switch fw := s.Forwarder(); {
	case state == nil || fw == nil:
	case opened:
		s.abandon(state)
	default:
		fw.CloseStream(state)
	}
}

// abandon resets a stream that the forwarder has opened and nobody wants.
func (s *Sender) abandon(state *claim.StreamState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forwarder == nil {
		return
	}
	id := int64(state.ID.Load())
	st := &Stream{
		unit: unit{sub: s.nobody}, sender: s, state: state, shared: true, opened: true, number: uint32(id / 4), resetting: true,
		code: s.nobody.errorCode(codeCanceled), blockedAt: -1, deadline: clock.Never, slot: len(s.streams),
	}
	st.stream = st
	if state.Phase.Load() != claim.StreamAbandoned {
		st.final = state.Close() + state.Shift()
	}
	state.Phase.Store(claim.StreamClosed)
	s.streams = append(s.streams, st)
	s.register(st)
	delete(s.unadopted, st.number)
	s.resets = append(s.resets, st)
	s.shard.enqueue(s)
}

// register makes acknowledgments find the stream.
func (s *Sender) register(st *Stream) {
	if s.byNumber == nil {
		s.byNumber = make(map[uint32]*Stream)
	}
	s.byNumber[st.number] = st
	s.know(int64(st.number))
	s.counters.Streams++
}

// know notes that a stream's number was taken by this process, or that its owner has come.
func (s *Sender) know(number int64) {
	if s.forwarder != nil {
		s.known.add(number, number+1)
	}
}

// orphan is what has happened to a stream that the forwarder has opened, until OpenStream is called for it: the forwarder is faster
// than this process, and so may its peer be.
type unadopted struct {
	acked, lost       spans
	finAcked, finLost bool
	limit             int64
	stopped           bool
	code              uint64
}

// maxOrphans is how many streams can be opened while this process reads the first packet of each.
const maxUnadopted = 4096

// orphanOf returns what is to be kept of a stream that is not known yet, or nil if it is none of those.
func (s *Sender) unadoptedStream(number uint32) *unadopted {
	n := int64(number)
	if s.forwarder == nil || uint64(n) >= s.state.NextUni.Load()/4 || s.known.contains(n, n+1) {
		return nil
	}
	o := s.unadopted[number]
	switch {
	case o != nil:
	case len(s.unadopted) == maxUnadopted:
		s.forgotten = max(s.forgotten, number+1)
	default:
		if s.unadopted == nil {
			s.unadopted = make(map[uint32]*unadopted)
		}
		o = new(unadopted)
		s.unadopted[number] = o
	}
	return o
}

// adopt goes on with a stream that the forwarder has opened.
func (s *Sender) adopt(st *Stream) {
	st.number, st.opened = uint32(st.id()/4), true
	if st.state.Phase.Load() == claim.StreamAbandoned {
		st.state.Phase.Store(claim.StreamOpening)
	} else {
		st.prefixSent = len(st.prefix)
	}
	s.register(st)
	o := s.unadopted[st.number]
	delete(s.unadopted, st.number)
	_, closed := st.state.Cursor()
	switch {
	case o != nil:
		st.acked, st.lost, st.finAcked, st.finLost = o.acked, o.lost, o.finAcked, o.finLost
		st.state.Limit.Store(max(st.state.Limit.Load(), uint64(o.limit)))
	case st.number < s.forgotten: // send all of it again
		st.lost.add(0, st.offset())
		st.finLost = closed
	}
	if o != nil && o.stopped {
		s.reset(st, Result{Outcome: Stopped, Code: o.code}, o.code)
		return
	}
	s.acknowledge(st, 0, 0, false)
}

// overrun says if the forwarder has sent more than the log is going to have: the publisher has broken QUIC's rules.
func (st *Stream) overrun(state track.State) bool {
	next, _ := st.state.Cursor()
	return state == track.Finished && next > st.log.End()
}
