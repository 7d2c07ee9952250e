package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"sluice/moqt"
)

// ErrLoop reports that a message must not be sent, because it has come through the peer, or through too many others.
var ErrLoop = errors.New("it would go round in a circle of relays")

// setHops declares the Hop ID of this end, in the options of all versions of draft-lcurley-moq-cluster.
func (c *controlStreams) setHops(m *moqt.Setup) {
	if id := c.s.cfg.HopID; id != 0 {
		m.HopID, m.RelayHops, m.RequestHops = &id, &id, true
	}
}

// agreeOnHops fills in the hop options of the peer's SETUP, if this end has a Hop ID.
func (p *Peer) agreeOnHops(own uint64, m *moqt.Setup) {
	id := cmp.Or(m.HopID, m.RelayHops)
	if own == 0 || id == nil {
		return
	}
	p.HopID, p.Hops, p.Cost = *id, moqt.HopsOfNamespaces, 1
	if m.RequestHops {
		p.Hops = moqt.HopsOfRequests
	}
	if m.RelayCost != nil {
		p.Cost = *m.RelayCost
	}
}

// awaitHops waits until the ends have agreed on hops.
func (c *controlStreams) awaitHops(ctx context.Context) error {
	if c.s.cfg.HopID == 0 {
		return nil
	}
	return c.await(ctx, c.known)
}

// hops returns the agreement of both ends. It is NoHops before the peer's SETUP has arrived; a session with a Hop ID
// sends no request before that.
func (c *controlStreams) hops() moqt.Hops {
	if !isClosed(c.known) {
		return moqt.NoHops
	}
	return c.peer.Hops
}

// addHop adds this end to the path of a message that it is about to send, or removes the path if the peer takes none in
// this type of message. It fails with ErrLoop.
func (c *controlStreams) addHop(typ moqt.MessageType, p *moqt.Parameters) error {
	needed := moqt.HopsOfRequests
	if typ == moqt.MessagePublishNamespace || typ == moqt.MessageNamespace {
		needed = moqt.HopsOfNamespaces
	}
	if c.hops() < needed {
		p.HopPath, p.RouteCost = nil, nil
		return nil
	}
	if p.HopPath.Has(c.peer.HopID) {
		return fmt.Errorf("send %s to the relay that it has come through: %w", typ, ErrLoop)
	}
	path, err := p.HopPath.Through(c.s.cfg.HopID)
	if err != nil {
		return fmt.Errorf("send %s: %v: %w", typ, err, ErrLoop)
	}
	p.HopPath = path
	return nil
}

// cameBack returns the refusal of a request or update that has come through this end before.
func (c *controlStreams) cameBack(kind moqt.MessageType, p *moqt.Parameters) *moqt.RequestError {
	switch {
	case !p.HopPath.Has(c.s.cfg.HopID):
		return nil
	case kind == moqt.MessagePublish || kind == moqt.MessagePublishNamespace:
		return refuse(moqt.RequestUninterested, "it comes from here: it has come through this relay before")
	}
	return refuse(moqt.RequestDoesNotExist, "nobody in this circle of relays has it: the request has come back")
}
