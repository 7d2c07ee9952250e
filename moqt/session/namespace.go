package session

import (
	"context"
	"fmt"

	"sluice/moqt"
)

// PublishedNamespace is a PUBLISH_NAMESPACE of ours (draft §6.2). Cancel withdraws it.
type PublishedNamespace struct {
	*Request
	baseRole
}

// PublishNamespace offers the tracks of a namespace (draft §10.15). The Request ID of the message is filled in. It
// waits only for a stream, at the peer's limit.
func (s *Session) PublishNamespace(ctx context.Context, m moqt.PublishNamespace) (*PublishedNamespace, error) {
	p := &PublishedNamespace{}
	err := s.request(ctx, s.waitForStream, &m, func(r *Request) role {
		p.Request = r
		return p
	})
	if err != nil {
		return nil, fmt.Errorf("publish namespace %s: %w", m.Namespace, err)
	}
	return p, nil
}

// Wait waits for the response. Giving up does not withdraw the namespace.
func (p *PublishedNamespace) Wait(ctx context.Context) error { return p.wait(ctx) }

// Update changes the parameters with REQUEST_UPDATE, and waits for the response.
func (p *PublishedNamespace) Update(ctx context.Context, parameters moqt.Parameters) error {
	_, err := p.update(ctx, parameters, nil)
	return err
}

// IncomingPublishNamespace is a PUBLISH_NAMESPACE of the peer (draft §6.2). Its Context is done when it is withdrawn;
// Cancel revokes its acceptance.
type IncomingPublishNamespace struct {
	*Request
	baseRole
	Message moqt.PublishNamespace
}

// OK accepts it.
func (p *IncomingPublishNamespace) OK() error { return p.answer(&moqt.RequestOK{}) }

// serve implements role.
func (p *IncomingPublishNamespace) serve(h Handler) { h.HandlePublishNamespace(p) }

// updateFailed implements role.
func (p *IncomingPublishNamespace) updateFailed() { p.close() }

// close ends a request of the peer, and our side of its stream.
func (r *Request) close() {
	r.end(ErrFinished)
	r.out.finish()
}
