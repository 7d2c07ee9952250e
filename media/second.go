package media

import (
	"crypto/sha256"
	"crypto/tls"
	"net"
	"net/netip"

	"github.com/quic-go/quic-go"

	"sluice/moqt"
	"sluice/track"
)

// SecondSender is an [Arena] whose state another sender shares: one that sends by the claim protocol what it sees before this process
// does. Package fastpath's is the kernel. What it does not send, this process does.
type SecondSender interface {
	Arena
	// Connect makes the connection that s belongs to, which Subscriber returned, known. abandon resets a stream that the second sender
	// has opened and that OpenStream will not be called for.
	Connect(s *SubscriberState, abandon func(*StreamState)) SecondConn
}

// SecondConn is a connection that a [SecondSender] sends on, or receives from. Its methods do not block, and may be called on any goroutine.
type SecondConn interface {
	// ConnectionID reports that the peer may address packets to an id of ours, or not any more.
	ConnectionID(id []byte, usable bool)
	// Received reports the largest packet number received so far, with each packet.
	Received(largest int64)
	// Acknowledged says that an ACK was processed: packets have been sent, and the peer waits for others. What they need may be prepared.
	Acknowledged()
	// ReadKeys and WriteKeys report the keys of a key phase, counted from 0. HeaderProtection is valid in phase 0, for all phases.
	ReadKeys(phase uint64, k *PacketKeys)
	WriteKeys(phase uint64, k *PacketKeys)
	// SetSession reports what precedes the data of streams and datagrams, and whether the peer puts the same in front of its own.
	SetSession(Session)
	// SetPath reports the path, when packets may be sent from now on, and its changes.
	SetPath(SecondPath)
	// OpenStream returns the state of the stream that brings up to this connection's peer; nil if the second sender does not take part.
	// theirs says that it was opened by the second sender. If not, nobody else touches it until it is streamOpen.
	OpenStream(up *Upstream) (state *StreamState, theirs bool)
	// CloseStream returns what OpenStream returned, or abandon was called with, when nothing more is sent on it.
	CloseStream(*StreamState)
	// Close forgets the connection and erases its keys.
	Close()
}

// PacketKeys are the keys of one direction for AEAD_CHACHA20_POLY1305 (RFC 9001 §5.1).
type PacketKeys struct {
	Key, HeaderProtection [32]byte
	IV                    [12]byte
}

// Session is what a second sender has to know of a session.
type Session struct {
	StreamPrefix   []byte // of unidirectional streams
	DatagramPrefix []byte
	// ErrorCode maps an application's stream reset code to the one on the wire. Default: the same.
	ErrorCode func(uint64) uint64
	Layout    moqt.DataLayout // of the headers that precede media
}

// SecondPath is where packets go.
type SecondPath struct {
	Local, Remote netip.AddrPort
	OOB           []byte // control messages that choose the source address, if Local does not say it
	DestConnID    []byte
	MaxStreamData uint64 // initial limit of unidirectional streams
	// MaxDatagramFrame is the peer's max_datagram_frame_size (RFC 9221 §3).
	MaxDatagramFrame uint64
}

// Upstream is the stream of another connection that a log is a copy of.
type Upstream struct {
	Conn     SecondConn
	StreamID int64
	// Prefix and Start are those of a stream that the second sender opened when the stream began: it sends all of it.
	Prefix []byte
	Start  int64
}

// Second returns the connection as the second sender knows it; nil if that does not take part.
func (s *Sender) Second() SecondConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.second
}

// SetSession tells a second sender about the session. Until it is called only this process sends.
func (s *Sender) SetSession(c Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.second == nil {
		return
	}
	if c.ErrorCode != nil {
		s.nobody.errorCode = c.ErrorCode
	}
	s.second.SetSession(c)
}

// share moves the state to where the second sender sees it. It is called before anybody but the connection's run loop knows of it.
func (s *Sender) share() {
	second := s.loop.second
	if second == nil || s.cfg.Client || s.closed {
		return
	}
	shared := second.Subscriber()
	if shared == nil {
		return
	}
	s.move(shared)
	s.nobody = &Subscription{sender: s, errorCode: func(code uint64) uint64 { return code }}
	s.second = second.Connect(shared, s.abandon)
	for _, id := range s.connIDs {
		s.second.ConnectionID(id.Bytes(), true)
	}
	s.connIDs = nil
}

// move makes "to" the state. Nobody else changes it meanwhile, or what they change is of no interest any more.
func (s *Sender) move(to *SubscriberState) {
	from := s.state
	for _, w := range [...]struct{ to, from *Word }{
		{&to.NextPN, &from.NextPN}, {&to.InFlight, &from.InFlight}, {&to.DataSent, &from.DataSent}, {&to.NextUni, &from.NextUni},
		{&to.Window, &from.Window}, {&to.DataLimit, &from.DataLimit}, {&to.MaxUni, &from.MaxUni}, {&to.LedgerLow, &from.LedgerLow},
		{&to.Reserve, &from.Reserve}, {&to.Packets, &from.Packets}, {&to.Bytes, &from.Bytes},
	} {
		w.to.Store(w.from.Load())
	}
	to.Threshold.Store(from.Threshold.Load())
	to.MTU.Store(from.MTU.Load())
	s.state = to
	s.common.Store(to)
}

// unshare ends the second sender's part.
func (s *Sender) unshare() {
	if s.second == nil {
		return
	}
	s.second.Close()
	s.second, s.orphans, s.known = nil, nil, nil
	s.move(new(SubscriberState)) // quic-go still takes numbers
}

// ConnectionID implements [quic.Hooks].
func (s *Sender) ConnectionID(id quic.ConnectionID, usable bool) {
	if s.loop.second == nil {
		return
	}
	s.mu.Lock()
	defer s.unlock()
	switch {
	case s.second != nil:
		s.second.ConnectionID(id.Bytes(), usable)
	case usable:
		s.connIDs = append(s.connIDs, id)
	}
}

// Received implements [quic.Hooks].
func (s *Sender) Received(largest int64) {
	if s.loop.second == nil {
		return
	}
	if second := s.Second(); second != nil {
		second.Received(largest)
	}
}

// shareKeys hands keys to the second sender, which knows one cipher suite and one version. Write keys come first (RFC 9001 §5.7), so that
// is when it gets to know of the connection.
func (s *Sender) shareKeys(phase uint64, suite uint16, version uint32, read, write []byte) {
	if s.loop.second == nil || suite != tls.TLS_CHACHA20_POLY1305_SHA256 || version != version1 {
		return
	}
	s.mu.Lock()
	defer s.unlock()
	if phase == 0 && write != nil {
		s.share()
	}
	if s.second == nil {
		return
	}
	for _, d := range [...]struct {
		secret []byte
		set    func(uint64, *PacketKeys)
	}{{read, s.second.ReadKeys}, {write, s.second.WriteKeys}} {
		if d.secret == nil {
			continue
		}
		var k PacketKeys
		if err := k.derive(d.secret); err != nil {
			s.loop.log.Error("media cannot be sent on a connection", "error", err)
			s.close()
			return
		}
		d.set(phase, &k)
		k = PacketKeys{}
	}
}

func (k *PacketKeys) derive(secret []byte) error {
	for label, out := range map[string][]byte{"quic key": k.Key[:], "quic iv": k.IV[:], "quic hp": k.HeaderProtection[:]} {
		if err := expandLabel(out, sha256.New, secret, label); err != nil {
			return err
		}
	}
	return nil
}

// sharePath tells the second sender where packets go, after there is a ledger.
func (s *Sender) sharePath(p quic.PathInfo, destConnID []byte) {
	if s.second == nil || len(s.ledger) == 0 && !s.growLedger() {
		return
	}
	path := SecondPath{Remote: s.route.remote, OOB: s.route.oob, DestConnID: destConnID, MaxStreamData: uint64(s.params.MaxStreamDataUni),
		MaxDatagramFrame: uint64(max(s.params.MaxDatagramFrameSize, 0))}
	if local, ok := p.Local.(*net.UDPAddr); ok {
		a := local.AddrPort()
		path.Local = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	s.second.SetPath(path)
}

// sharedState asks the second sender for a stream's state and returns a reader of the log. If the second sender has opened the stream, cfg
// becomes what that has begun with.
func (s *Sender) sharedState(cfg *StreamConfig) (state *StreamState, theirs bool, r *track.Reader, err error) {
	if second := s.Second(); second != nil && cfg.Upstream != nil {
		state, theirs = second.OpenStream(cfg.Upstream)
	}
	if theirs {
		up := cfg.Upstream
		if r, err = cfg.Log.NewReader(up.Start, nil); err == nil && state.delta() == int64(len(up.Prefix))-up.Start {
			cfg.Prefix, cfg.Start = up.Prefix, up.Start
			return state, true, r, nil
		}
		if err == nil {
			r.Close()
		}
		s.abandon(state)
		state, theirs = nil, false
	}
	if r, err = cfg.Log.NewReader(cfg.Start, nil); err != nil {
		s.giveBack(state, false)
	}
	return state, false, r, err
}

// giveBack returns a stream's state that is not going to be used.
func (s *Sender) giveBack(state *StreamState, theirs bool) {
	switch second := s.Second(); {
	case state == nil || second == nil:
	case theirs:
		s.abandon(state)
	default:
		second.CloseStream(state)
	}
}

// abandon resets a stream that the second sender has opened and nobody wants.
func (s *Sender) abandon(state *StreamState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.second == nil {
		return
	}
	id := int64(state.ID.Load())
	st := &Stream{
		unit: unit{sub: s.nobody}, sender: s, state: state, shared: true, opened: true, number: uint32(id / 4), resetting: true,
		code: s.nobody.errorCode(codeCanceled), blockedAt: -1, deadline: never, slot: len(s.streams),
	}
	st.stream = st
	if state.State.Load() != streamAbandoned {
		st.final = state.close() + state.delta()
	}
	state.State.Store(streamClosed)
	s.streams = append(s.streams, st)
	s.register(st)
	delete(s.orphans, st.number)
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
	if s.second != nil {
		s.known.add(number, number+1)
	}
}

// orphan is what has happened to a stream that the second sender has opened, until OpenStream is called for it: the second sender is faster
// than this process, and so may its peer be.
type orphan struct {
	acked, lost       spans
	finAcked, finLost bool
	limit             int64
	stopped           bool
	code              uint64
}

// maxOrphans is how many streams can be opened while this process reads the first packet of each.
const maxOrphans = 4096

// orphanOf returns what is to be kept of a stream that is not known yet, or nil if it is none of those.
func (s *Sender) orphanOf(number uint32) *orphan {
	n := int64(number)
	if s.second == nil || uint64(n) >= s.state.NextUni.Load()/4 || s.known.contains(n, n+1) {
		return nil
	}
	o := s.orphans[number]
	switch {
	case o != nil:
	case len(s.orphans) == maxOrphans:
		s.forgotten = max(s.forgotten, number+1)
	default:
		if s.orphans == nil {
			s.orphans = make(map[uint32]*orphan)
		}
		o = new(orphan)
		s.orphans[number] = o
	}
	return o
}

// adopt goes on with a stream that the second sender has opened.
func (s *Sender) adopt(st *Stream) {
	st.number, st.opened = uint32(st.id()/4), true
	if st.state.State.Load() == streamAbandoned {
		st.state.State.Store(streamOpening)
	} else {
		st.prefixSent = len(st.prefix)
	}
	s.register(st)
	o := s.orphans[st.number]
	delete(s.orphans, st.number)
	_, closed := st.state.next()
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

// overrun says if the second sender has sent more than the log is going to have: the publisher has broken QUIC's rules.
func (st *Stream) overrun(state track.State) bool {
	next, _ := st.state.next()
	return state == track.Finished && next > st.log.End()
}
