package media

import (
	"crypto/tls"

	"github.com/quic-go/quic-go"

	"sluice/claim"
	"sluice/clock"
	"sluice/internal/packet"
	"sluice/track"
)

// forwarderLink connects the sender with the forwarder, and tells it what it needs to know. It is guarded by the
// sender's lock. openStream, giveBack and abandon take the lock themselves, because the forwarder calls abandon, and
// may be slow to open a stream.
type forwarderLink struct {
	sender    *Sender
	conn      claim.ForwarderConn // nil: only the media sender sends
	asked     bool                // whether the forwarder has room for the connection
	abandoned *Subscription       // of streams that no subscription wants
	connIDs   []quic.ConnectionID // that were usable, at most maxConnIDs, until there is a conn
}

// maxConnIDs is how many connection IDs wait for a conn: quic-go has fewer at a time, but a peer may retire any number.
const maxConnIDs = 8

// connect moves the state to where the forwarder sees it, when the handshake has keys: most Initial packets may come
// from peers that do not go on. Only the goroutine of the connection knows the sender then.
func (l *forwarderLink) connect() {
	s := l.sender
	fw := s.loop.forwarder
	if fw == nil || s.cfg.Apart || s.closed || l.asked {
		return
	}
	l.asked = true
	conn, shared := fw.Connect(l.abandon)
	if conn == nil {
		return
	}
	l.move(shared)
	l.conn, s.ledger.shared, s.streams.adoption.state = conn, conn, shared
	l.abandoned = &Subscription{sender: s, errorCode: sameCode}
	for _, id := range l.connIDs {
		l.conn.ConnectionID(id.Bytes(), true)
	}
	l.connIDs = nil
}

// move moves the shared state. At the end of a connection the forwarder may be changing it at the same time.
func (l *forwarderLink) move(to *claim.ConnState) {
	l.sender.state.MoveTo(to)
	l.sender.useState(to)
}

// disconnect ends the forwarder's part. quic-go still takes packet numbers, so the state leaves the forwarder's memory
// before the forwarder may use that again.
func (l *forwarderLink) disconnect() {
	if l.conn == nil {
		return
	}
	l.move(new(claim.ConnState))
	l.conn.Close()
	l.conn, l.sender.streams.adoption = nil, adoption{}
}

func (l *forwarderLink) setSession(c claim.Session) {
	if l.conn == nil {
		return
	}
	if c.ErrorCode != nil {
		l.abandoned.errorCode = c.ErrorCode
	}
	l.conn.SetSession(c)
}

func (l *forwarderLink) connectionID(id quic.ConnectionID, usable bool) {
	switch {
	case l.conn != nil:
		l.conn.ConnectionID(id.Bytes(), usable)
	case usable && len(l.connIDs) < maxConnIDs:
		l.connIDs = append(l.connIDs, id)
	}
}

// setKeys hands keys to the forwarder, which knows one cipher suite and one version. With the first ones it learns of
// the connection: of a server these are for writing (RFC 9001 §5.7), of a client those for reading.
func (l *forwarderLink) setKeys(generation uint64, suite uint16, version uint32, read, write []byte) error {
	if l.sender.loop.forwarder == nil || suite != tls.TLS_CHACHA20_POLY1305_SHA256 || version != packet.Version1 {
		return nil
	}
	if generation == 0 {
		l.connect()
	}
	if l.conn == nil {
		return nil
	}
	for _, d := range [...]struct {
		secret []byte
		set    func(uint64, *claim.PacketKeys)
	}{{read, l.conn.ReadKeys}, {write, l.conn.WriteKeys}} {
		if d.secret == nil {
			continue
		}
		var k claim.PacketKeys
		if err := deriveKeys(&k, suite, version, d.secret); err != nil {
			return err
		}
		d.set(generation, &k)
		k = claim.PacketKeys{}
	}
	return nil
}

func deriveKeys(k *claim.PacketKeys, suite uint16, version uint32, secret []byte) error {
	m, err := packet.Derive(suite, version, secret)
	copy(k.Key[:], m.Key)
	copy(k.IV[:], m.IV)
	copy(k.HeaderProtection[:], m.HeaderProtection)
	m.Erase()
	return err
}

// setPath tells the forwarder where packets go, after making sure that there is a ledger.
func (l *forwarderLink) setPath(r *route) {
	s := l.sender
	if l.conn == nil || len(s.ledger.records) == 0 && !s.ledger.grow() {
		return
	}
	l.conn.SetPath(claim.Path{
		Local: r.local, Remote: r.Remote(), OOB: r.OOB(), DestConnID: r.destConnID,
		MaxStreamData:    uint64(s.params.MaxStreamDataUni),
		MaxDatagramFrame: uint64(max(s.params.MaxDatagramFrameSize, 0)),
	})
}

// openStream asks the forwarder for a stream's state, and returns it with a reader of the log. If the forwarder has
// opened the stream, prefix and start of cfg become those that it has begun with.
func (l *forwarderLink) openStream(cfg *StreamConfig) (
	state *claim.StreamState, adopted bool, r *track.Reader, err error,
) {
	if fw := l.sender.Forwarder(); fw != nil && cfg.PublisherStream != nil {
		state, adopted = fw.OpenStream(cfg.PublisherStream)
	}
	if adopted {
		from := cfg.PublisherStream
		r, err = cfg.Log.NewReader(from.Start, nil)
		if err == nil && state.Shift() == int64(len(from.Prefix))-from.Start && state.Alias.Load() == from.TrackAlias {
			cfg.Prefix, cfg.Start = from.Prefix, from.Start
			return state, true, r, nil
		}
		if err == nil {
			r.Close()
		}
		l.abandon(state)
		state = nil
	}
	if r, err = cfg.Log.NewReader(cfg.Start, nil); err != nil {
		l.giveBack(state, false)
	}
	return state, false, r, err
}

// resume has the forwarder go on with a stream whose log goes on with another publisher's stream. The lock is not held.
func (l *forwarderLink) resume(st *Stream, o *track.Origin) {
	fw, from := l.sender.Forwarder(), st.goesOn(o)
	if fw == nil || from == nil {
		return
	}
	state, adopted := fw.OpenStream(from)
	if adopted {
		l.abandon(state)
	}
	if state == nil || adopted {
		return
	}
	s := l.sender
	s.mu.Lock()
	defer s.mu.release()
	if !st.attach(o, state) && l.conn != nil {
		l.conn.CloseStream(state)
	}
}

// giveBack returns a stream's state that is not going to be used.
func (l *forwarderLink) giveBack(state *claim.StreamState, adopted bool) {
	switch fw := l.sender.Forwarder(); {
	case state == nil || fw == nil:
	case adopted:
		l.abandon(state)
	default:
		fw.CloseStream(state)
	}
}

// abandon resets a stream that the forwarder has opened and that no subscription wants.
func (l *forwarderLink) abandon(state *claim.StreamState) {
	s := l.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.conn == nil {
		return
	}
	st := &Stream{
		unit: unit{sub: l.abandoned}, content: content{state: state, shared: true, origin: new(track.Origin)},
		sender: s, opened: true,
		number: uint32(state.ID.Load() / 4), resetting: true, code: l.abandoned.errorCode(codeCanceled),
		blockedAt: -1, deadline: clock.Never,
	}
	st.stream = st
	if state.Phase.Load() != claim.StreamAbandoned {
		st.final = state.Close() + state.Shift()
	}
	state.Phase.Store(claim.StreamClosed)
	s.streams.add(st)
	s.streams.register(st)
	s.streams.adoption.take(st.number)
	st.since = s.loop.clock.Now()
	s.streams.resets = append(s.streams.resets, st)
	s.shard.enqueue(s)
}
