package session

import (
	"context"

	"sluice/moqt"
)

// PublishedNamespace is a PUBLISH_NAMESPACE of this end (draft §6.2). Cancel withdraws it.
type PublishedNamespace struct {
	*Request
	baseRole
}

// Wait waits for the response. The end of ctx does not withdraw the namespace.
func (p *PublishedNamespace) Wait(ctx context.Context) error { return p.wait(ctx) }

// Update changes the parameters with REQUEST_UPDATE, and waits for the response. It fails with ErrLoop if the namespace
// comes through the peer now, or through too many others: then it has to be withdrawn.
func (p *PublishedNamespace) Update(ctx context.Context, parameters moqt.Parameters) error {
	if parameters.HopPath != nil {
		if err := p.s.control.addHop(moqt.MessagePublishNamespace, &parameters); err != nil {
			return err
		}
	}
	_, err := p.sent.update(ctx, parameters, nil)
	return err
}

// IncomingPublishNamespace is a PUBLISH_NAMESPACE of the peer (draft §6.2). Its Context is done when the peer withdraws
// it. Cancel revokes its acceptance.
type IncomingPublishNamespace struct {
	*Request
	baseRole
	Message moqt.PublishNamespace // its parameters change: see Parameters
}

// Parameters returns the HopPath and the RouteCost, with updates.
func (p *IncomingPublishNamespace) Parameters() moqt.Parameters {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.Message.Parameters
}

// OK accepts the namespace.
func (p *IncomingPublishNamespace) OK() error { return p.answer(&moqt.RequestOK{}) }

// serve implements role.
func (p *IncomingPublishNamespace) serve(h Handler) { h.HandlePublishNamespace(p) }

// updateLocked implements role.
func (p *IncomingPublishNamespace) updateLocked(u *Update, _ *moqt.Parameters) *moqt.RequestError {
	p.Message.Parameters.Merge(&u.Parameters)
	return nil
}

// updateFailed implements role.
func (p *IncomingPublishNamespace) updateFailed() { p.close() }
