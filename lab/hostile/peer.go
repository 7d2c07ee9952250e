package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// Peer is a peer that does harm. It is the handler of its session.
type Peer struct {
	*session.Session
	Conn transport.Conn
	// Cache is the cache of the relay. Nil: it is not checked.
	Cache Cache

	victim   moqt.FullTrackName
	own      moqt.FullTrackName
	upstream bool // the relay has dialed it
	asked    chan *session.Publication
	watched  chan *session.IncomingSubscribeNamespace
	session.Unsupported
}

// Cache tells how full a relay's cache is.
type Cache interface {
	Bytes() int64
	Over() int64  // bytes beyond its size
	Trims() int64 // how often it forgot something because of a limit
}

// NewPeer returns a peer that attacks a relay on which another peer publishes the victim. Set Session and Conn before
// an attack.
func NewPeer(victim moqt.FullTrackName) *Peer {
	return &Peer{
		victim:  victim,
		own:     moqt.FullTrackName{Namespace: moqt.Namespace{"flood", fmt.Sprint(rand.Uint64())}, Name: "x"},
		asked:   make(chan *session.Publication, 1),
		watched: make(chan *session.IncomingSubscribeNamespace, 1),
	}
}

// NewUpstream returns a peer that is an upstream relay. Somebody has to subscribe to its own track at the relay, and to
// the namespace of that.
func NewUpstream() *Peer {
	p := NewPeer(moqt.FullTrackName{})
	p.upstream = true
	return p
}

// Own returns the track that the peer publishes.
func (p *Peer) Own() moqt.FullTrackName { return p.own }

// HandleSubscribeNamespace implements [session.Handler].
func (p *Peer) HandleSubscribeNamespace(n *session.IncomingSubscribeNamespace) {
	if n.OK() == nil {
		select {
		case p.watched <- n:
		default:
		}
	}
}

// HandleSubscribe implements [session.Handler]: a peer that has announced the victim gets a subscription to it.
func (p *Peer) HandleSubscribe(s *session.Publication) {
	if s.Accept(moqt.Parameters{}, nil) == nil {
		select {
		case p.asked <- s:
		default:
		}
	}
}

// expelled waits until the relay has ended the session.
func (p *Peer) expelled() {
	select {
	case <-p.Context().Done():
	case <-time.After(patience):
		undefended("the session goes on")
	}
}

// publish offers the peer's own track, or the victim. An upstream relay waits until it is asked for its own.
func (p *Peer) publish(track moqt.FullTrackName) *session.Publication {
	if p.upstream {
		select {
		case s := <-p.asked:
			return s
		case <-p.Context().Done():
			must(p.Context().Err())
		}
	}
	s := got(p.Publish(p.Context(), moqt.Publish{Track: track}))
	must(s.Wait(p.Context()))
	return s
}

// subgroup opens a stream of the first group of the peer's own track.
func (p *Peer) subgroup() (transport.SendStream, moqt.SubgroupEncoder) {
	h := moqt.SubgroupHeader{FirstObject: true}
	stream := got(p.publish(p.own).OpenSubgroup(p.Context(), h))
	return stream, moqt.NewSubgroupEncoder(p.Version().DataLayout(), h)
}

// manyObjects sends objects of one byte on one stream, with ids that are a step apart, until the relay stops it.
func (p *Peer) manyObjects(count, step uint64) error {
	stream, encoder := p.subgroup()
	var b []byte
	for i := range count {
		b, _ = encoder.AppendObject(b, moqt.ObjectHeader{ObjectID: step * i, PayloadLength: 1})
		if b = append(b, 'x'); len(b) > 16<<10 {
			if _, err := stream.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	return nil
}

// checkCache ends the attack if the relay holds more than it may.
func (p *Peer) checkCache() {
	if p.Cache == nil {
		return
	}
	if over := p.Cache.Over(); over > 0 {
		undefended("the cache has %d bytes too many", over)
	}
}

// knownGroup returns a group of the victim that subscribers already have: the last before the current one.
func (p *Peer) knownGroup() uint64 {
	s := got(p.Subscribe(p.Context(), moqt.Subscribe{Track: p.victim}, unread{p.Context()}))
	defer s.Cancel(moqt.ResetCancelled)
	ok := got(s.Wait(p.Context()))
	if ok.Parameters.LargestObject == nil {
		must(errors.New("the victim has no object yet"))
	}
	return max(ok.Parameters.LargestObject.Group, 1) - 1
}

// impersonate publishes an object that differs from the object that subscribers already have, until the relay refuses
// it: at first the relay takes it for a publisher that was restarted.
func (p *Peer) impersonate(s *session.Publication, group uint64) {
	for range 200 {
		h := moqt.SubgroupHeader{GroupID: group, FirstObject: true}
		stream, err := s.OpenSubgroup(s.Context(), h)
		if err != nil {
			return // the relay has ended it
		}
		const forged = 100 // bytes
		encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
		b, _ := encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: forged})
		_, _ = stream.Write(append(b, bytes.Repeat([]byte("!"), forged)...))
		select {
		case <-s.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	undefended("the relay takes objects of an impostor")
}

// contradicts announces the victim's namespace, and sends other objects under the same ids.
func contradicts(p *Peer) {
	group := p.knownGroup()
	n := got(p.PublishNamespace(p.Context(), moqt.PublishNamespace{Namespace: p.victim.Namespace}))
	must(n.Wait(p.Context()))
	select {
	case s := <-p.asked:
		p.impersonate(s, group)
	case <-p.Context().Done():
		must(p.Context().Err())
	case <-time.After(patience):
		must(errors.New("the relay does not subscribe"))
	}
}

// offers offers the victim by PUBLISH.
func offers(p *Peer) {
	group := p.knownGroup()
	p.impersonate(p.publish(p.victim), group)
}
