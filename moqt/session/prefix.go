package session

import (
	"context"
	"fmt"

	"sluice/moqt"
)

// prefixSubscription is what SUBSCRIBE_NAMESPACE and SUBSCRIBE_TRACKS of the peer have in common.
type prefixSubscription struct {
	*Request
	baseRole
}

// Prefix is the prefix, with updates.
func (p prefixSubscription) Prefix() moqt.Namespace {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.prefixes[p.Request]
}

// OK accepts the request.
func (p prefixSubscription) OK() error { return p.answer(&moqt.RequestOK{}) }

// enterPrefix enters a prefix, new or updated, with s.mu held. Prefixes of requests of the same type must not overlap
// (draft §10.18, §10.19).
func (p prefixSubscription) enterPrefix(prefix moqt.Namespace) *moqt.RequestError {
	if prefix.IsForbidden() || prefix.IsSession() {
		return refuse(moqt.RequestDoesNotExist, "the namespace is reserved")
	}
	for other, used := range p.s.prefixes {
		if other != p.Request && other.kind == p.kind && used.Overlaps(prefix) {
			return refuse(moqt.RequestPrefixOverlap, "the prefix overlaps with that of request %d", other.id)
		}
	}
	p.s.prefixes[p.Request] = prefix
	return nil
}

// suffix returns what follows the prefix in a namespace that the peer may be told of, with s.mu held.
func (p prefixSubscription) suffix(ns moqt.Namespace) (moqt.Namespace, error) {
	prefix := p.s.prefixes[p.Request]
	switch {
	case p.over:
		return nil, context.Cause(p.ctx)
	case !p.answered:
		return nil, ErrUnanswered
	case ns.IsForbidden() || ns.IsSession():
		return nil, ErrReserved
	case !ns.HasPrefix(prefix):
		return nil, fmt.Errorf("namespace %s is not under %s", ns, prefix)
	}
	return ns[len(prefix):], nil
}

// updating implements role.
func (p prefixSubscription) updating(u *Update, _ *moqt.Parameters) *moqt.RequestError {
	if u.Parameters.NamespacePrefix == nil {
		return nil
	}
	return p.enterPrefix(*u.Parameters.NamespacePrefix)
}

// updateFailed implements role.
func (p prefixSubscription) updateFailed() { p.close() }

// closed implements role: FIN cancels these requests (draft §6.1).
func (p prefixSubscription) closed() (error, bool) { return ErrFinished, true }

// ended implements role.
func (p prefixSubscription) ended() { delete(p.s.prefixes, p.Request) }
