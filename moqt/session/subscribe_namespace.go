package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unique"

	"sluice/moqt"
)

// NotifyNamespace is called when the peer publishes in a namespace, or does so no longer. The parameters come from
// NAMESPACE: a HopPath and a RouteCost, if the session has agreed on them.
type NotifyNamespace func(ns moqt.Namespace, published bool, p moqt.Parameters)

// NamespaceSubscription is a SUBSCRIBE_NAMESPACE of this end (draft §6.1).
type NamespaceSubscription struct {
	*Request
	baseRole
	notify NotifyNamespace
	calls  sync.Mutex // held while notify is called

	// Guarded by s.mu.
	prefix moqt.Namespace
	active map[string]reportedNamespace
}

// reportedNamespace is a namespace that the publisher has reported with NAMESPACE.
type reportedNamespace struct {
	name     moqt.Namespace
	path     moqt.HopPath
	cost     uint64
	cameBack bool // it has come through this end before, which takes no notice of it
}

// sameWay reports whether a namespace was reported as having come the same way, at the same cost.
func (r *reportedNamespace) sameWay(other *reportedNamespace) bool {
	return slices.Equal(r.path, other.path) && r.cost == other.cost
}

// isForUs reports whether the application gets to know of a namespace.
func (r *reportedNamespace) isForUs() bool {
	return r != nil && !r.cameBack && !r.name.IsForbidden() && !r.name.IsSession()
}

// errTooManyNamespaces ends a request whose peer reports more than MaxNamespaces.
var errTooManyNamespaces = errors.New("the peer reports too many namespaces")

// Wait waits for the response. The end of ctx does not cancel the request.
func (n *NamespaceSubscription) Wait(ctx context.Context) error { return n.wait(ctx) }

// Update changes the parameters, among them the prefix, with REQUEST_UPDATE, and waits for the response. Namespaces
// without the new prefix disappear.
func (n *NamespaceSubscription) Update(ctx context.Context, parameters moqt.Parameters) error {
	_, err := n.sent.update(ctx, parameters, func(*moqt.RequestOK) {
		if parameters.NamespacePrefix != nil {
			n.setPrefixLocked(*parameters.NamespacePrefix)
		}
	})
	return err
}

// setPrefixLocked changes the prefix. s.mu is held.
func (n *NamespaceSubscription) setPrefixLocked(prefix moqt.Namespace) {
	n.prefix = prefix
	gone := make(map[string]reportedNamespace)
	for key, reported := range n.active {
		if !reported.name.HasPrefix(prefix) {
			gone[key] = reported
			delete(n.active, key)
		}
	}
	n.disappear(gone)
}

// disappear reports namespaces as gone, in a task of its own because callers hold s.mu.
func (n *NamespaceSubscription) disappear(gone map[string]reportedNamespace) {
	n.s.spawn(func() {
		n.calls.Lock()
		defer n.calls.Unlock()
		for _, reported := range gone {
			if reported.isForUs() {
				n.notify(reported.name, false, moqt.Parameters{})
			}
		}
	})
}

// message implements role.
func (n *NamespaceSubscription) message(m moqt.Message) error {
	switch m := m.(type) {
	case *moqt.NamespaceAdded:
		return n.change(m.Suffix, m)
	case *moqt.NamespaceDone:
		return n.change(m.Suffix, nil)
	}
	return n.baseRole.message(m)
}

// change applies a NAMESPACE, or a NAMESPACE_DONE if added is nil.
func (n *NamespaceSubscription) change(suffix moqt.Namespace, added *moqt.NamespaceAdded) error {
	n.calls.Lock()
	defer n.calls.Unlock()
	before, after, err := n.enter(suffix, added)
	switch {
	case errors.Is(err, errTooManyNamespaces):
		n.abort(moqt.ResetExcessiveLoad, err)
		return nil
	case err != nil:
		return err
	case !after.isForUs() && before.isForUs():
		n.notify(before.name, false, moqt.Parameters{})
	case after.isForUs() && !(before.isForUs() && before.sameWay(after)):
		n.notify(after.name, true, moqt.Parameters{HopPath: after.path, RouteCost: &after.cost})
	}
	return nil
}

// enter records a NAMESPACE or NAMESPACE_DONE, and returns the namespace before and after; nil: not reported.
func (n *NamespaceSubscription) enter(
	suffix moqt.Namespace, added *moqt.NamespaceAdded,
) (before, after *reportedNamespace, err error) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	if n.over {
		return nil, nil, nil
	}
	ns := n.prefix.Join(suffix)
	if err := ns.Validate(); err != nil {
		return nil, nil, violation("%v", err)
	}
	key := ns.Key()
	if known, ok := n.active[key]; ok {
		before = &known
	}
	switch {
	case added != nil && before == nil && len(n.active) >= n.s.cfg.MaxNamespaces:
		return nil, nil, errTooManyNamespaces
	case added != nil:
		after = &reportedNamespace{name: ns}
		if p := added.Parameters; p != nil {
			after.path, after.cost, after.cameBack = p.HopPath, p.Cost(), p.HopPath.Has(n.s.cfg.HopID)
		}
		n.active[key] = *after
	case before == nil:
		return nil, nil, violation("NAMESPACE_DONE without NAMESPACE")
	default:
		delete(n.active, key)
	}
	return before, after, nil
}

// closed implements role.
func (n *NamespaceSubscription) closed() (error, bool) { return ErrFinished, true }

// endedLocked implements role.
func (n *NamespaceSubscription) endedLocked() {
	gone := n.active
	n.active = nil
	n.disappear(gone)
}

// IncomingSubscribeNamespace is a SUBSCRIBE_NAMESPACE of the peer (draft §6.1).
type IncomingSubscribeNamespace struct {
	prefixSubscription
	Message moqt.SubscribeNamespace
	// By the keys of namespaces, which all sessions share: a crowd may ask for the same thousands. Guarded by s.mu.
	active map[unique.Handle[string]]reportedNamespace
}

// Add reports a namespace that has the prefix to the peer, with the HopPath and the RouteCost of the parameters. A
// namespace that was reported before is reported again only if these have changed. It fails with ErrLoop, and changes
// nothing, if the peer must not know.
func (n *IncomingSubscribeNamespace) Add(ns moqt.Namespace, p moqt.Parameters) error {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	suffix, err := n.suffixLocked(ns)
	if err != nil {
		return err
	}
	if err := n.s.control.addHop(moqt.MessageNamespace, &p); err != nil {
		return err
	}
	key, now := unique.Make(ns.Key()), reportedNamespace{name: ns, path: p.HopPath, cost: p.Cost()}
	if before, known := n.active[key]; known && before.sameWay(&now) {
		return nil
	}
	n.active[key] = now
	m := &moqt.NamespaceAdded{Suffix: suffix}
	if n.s.control.hops() != moqt.NoHops {
		m.Parameters = &p
	}
	return n.send(m, false)
}

// Reported returns how many namespaces the peer was told of that are not gone.
func (n *IncomingSubscribeNamespace) Reported() int {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	return len(n.active)
}

// Remove reports to the peer that a namespace is gone, if the namespace was reported before.
func (n *IncomingSubscribeNamespace) Remove(ns moqt.Namespace) error {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	key := unique.Make(ns.Key())
	if _, known := n.active[key]; !known {
		return nil
	}
	suffix, err := n.suffixLocked(ns)
	if err != nil {
		return err
	}
	delete(n.active, key)
	return n.send(&moqt.NamespaceDone{Suffix: suffix}, false)
}

// admitLocked implements role.
func (n *IncomingSubscribeNamespace) admitLocked() error {
	n.active = make(map[unique.Handle[string]]reportedNamespace)
	if n.Message.WithTracks {
		return refuse(moqt.RequestNotSupported, "ask for namespaces and for tracks in requests of their own")
	}
	return asError(n.enterPrefixLocked(n.Message.Prefix))
}

// serve implements role.
func (n *IncomingSubscribeNamespace) serve(h Handler) { h.HandleSubscribeNamespace(n) }

// updateLocked implements role. From now on suffixes are relative to the new prefix. The peer regards namespaces
// without it as gone, and they cannot be reported any more (draft §10.9.2).
func (n *IncomingSubscribeNamespace) updateLocked(u *Update, response *moqt.Parameters) *moqt.RequestError {
	refused := n.prefixSubscription.updateLocked(u, response)
	if refused == nil && u.Parameters.NamespacePrefix != nil {
		maps.DeleteFunc(n.active, func(_ unique.Handle[string], reported reportedNamespace) bool {
			return !reported.name.HasPrefix(*u.Parameters.NamespacePrefix)
		})
	}
	return refused
}

// prefixSubscription is the common part of SUBSCRIBE_NAMESPACE and SUBSCRIBE_TRACKS of the peer.
type prefixSubscription struct {
	*Request
	baseRole
}

// OK accepts the request.
func (p prefixSubscription) OK() error { return p.answer(&moqt.RequestOK{}) }

// enterPrefixLocked adds a prefix, new or updated, to the table. Prefixes of requests of the same type must not overlap
// (draft §10.18, §10.19). s.mu is held.
func (p prefixSubscription) enterPrefixLocked(prefix moqt.Namespace) *moqt.RequestError {
	if prefix.IsForbidden() || prefix.IsSession() {
		return refuse(moqt.RequestDoesNotExist, "the namespace is reserved")
	}
	for other, used := range p.s.table.prefixes {
		if other != p.Request && other.kind == p.kind && used.Overlaps(prefix) {
			return refuse(moqt.RequestPrefixOverlap, "the prefix overlaps with the prefix of request %d", other.id)
		}
	}
	p.s.table.prefixes[p.Request] = prefix
	return nil
}

// suffixLocked returns the rest of a namespace after the prefix, and an error if the namespace must not be reported to
// the peer. s.mu is held.
func (p prefixSubscription) suffixLocked(ns moqt.Namespace) (moqt.Namespace, error) {
	prefix := p.s.table.prefixes[p.Request]
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

// updateLocked implements role.
func (p prefixSubscription) updateLocked(u *Update, _ *moqt.Parameters) *moqt.RequestError {
	if u.Parameters.NamespacePrefix == nil {
		return nil
	}
	return p.enterPrefixLocked(*u.Parameters.NamespacePrefix)
}

// updateFailed implements role.
func (p prefixSubscription) updateFailed() { p.close() }

// closed implements role: FIN cancels these requests (draft §6.1).
func (p prefixSubscription) closed() (error, bool) { return ErrFinished, true }

// endedLocked implements role.
func (p prefixSubscription) endedLocked() { delete(p.s.table.prefixes, p.Request) }
