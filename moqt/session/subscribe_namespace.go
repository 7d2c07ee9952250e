package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"sluice/moqt"
)

// NamespaceSubscription is a SUBSCRIBE_NAMESPACE of ours (draft §6.1).
type NamespaceSubscription struct {
	*Request
	baseRole
	notify func(ns moqt.Namespace, published bool)
	calls  sync.Mutex // held while notify is called

	// Guarded by s.mu.
	prefix moqt.Namespace
	active map[string]moqt.Namespace
}

// errTooManyNamespaces says that the peer reports more namespaces than are wanted.
var errTooManyNamespaces = errors.New("the peer reports too many namespaces")

// SubscribeNamespace asks for the namespaces with a prefix (draft §10.18). The Request ID of the message is filled in.
// For each namespace that appears or disappears notify is called; calls do not overlap, and the next message of the
// peer waits for their end. When the request ends before the session does, all namespaces disappear. It waits only for
// a stream, at the peer's limit.
func (s *Session) SubscribeNamespace(
	ctx context.Context, m moqt.SubscribeNamespace, notify func(ns moqt.Namespace, published bool),
) (*NamespaceSubscription, error) {
	n := &NamespaceSubscription{notify: notify, prefix: m.Prefix, active: make(map[string]moqt.Namespace)}
	err := s.request(ctx, s.waitForStream, &m, func(r *Request) role {
		n.Request = r
		return n
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to namespaces under %s: %w", m.Prefix, err)
	}
	return n, nil
}

// Wait waits for the response. Giving up does not cancel the request.
func (n *NamespaceSubscription) Wait(ctx context.Context) error { return n.wait(ctx) }

// Update changes the parameters, among them the prefix, with REQUEST_UPDATE, and waits for the response. Namespaces
// without a new prefix disappear.
func (n *NamespaceSubscription) Update(ctx context.Context, parameters moqt.Parameters) error {
	_, err := n.update(ctx, parameters, func(*moqt.RequestOK) {
		if parameters.NamespacePrefix != nil {
			n.setPrefix(*parameters.NamespacePrefix)
		}
	})
	return err
}

// setPrefix takes a new prefix, with s.mu held.
func (n *NamespaceSubscription) setPrefix(prefix moqt.Namespace) {
	n.prefix = prefix
	gone := make(map[string]moqt.Namespace)
	for key, ns := range n.active {
		if !ns.HasPrefix(prefix) {
			gone[key] = ns
			delete(n.active, key)
		}
	}
	n.disappear(gone)
}

// disappear reports namespaces as gone, in a task of its own because s.mu is held.
func (n *NamespaceSubscription) disappear(gone map[string]moqt.Namespace) {
	n.s.spawn(func() {
		n.calls.Lock()
		defer n.calls.Unlock()
		for _, ns := range gone {
			n.notify(ns, false)
		}
	})
}

// message implements role.
func (n *NamespaceSubscription) message(m moqt.Message) error {
	switch m := m.(type) {
	case *moqt.NamespaceAdded:
		return n.change(m.Suffix, true)
	case *moqt.NamespaceDone:
		return n.change(m.Suffix, false)
	}
	return n.baseRole.message(m)
}

func (n *NamespaceSubscription) change(suffix moqt.Namespace, published bool) error {
	n.calls.Lock()
	defer n.calls.Unlock()
	ns, changed, err := n.enter(suffix, published)
	switch {
	case errors.Is(err, errTooManyNamespaces):
		n.abort(moqt.ResetExcessiveLoad, err)
		return nil
	case err != nil:
		return err
	case changed && !ns.IsForbidden() && !ns.IsSession():
		n.notify(ns, published)
	}
	return nil
}

// enter records a change, and reports whether it is one.
func (n *NamespaceSubscription) enter(suffix moqt.Namespace, published bool) (moqt.Namespace, bool, error) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	if n.over {
		return nil, false, nil
	}
	ns := n.prefix.Join(suffix)
	if err := ns.Validate(); err != nil {
		return nil, false, violation("%v", err)
	}
	key := ns.Key()
	_, known := n.active[key]
	switch {
	case published && !known && len(n.active) >= n.s.cfg.MaxNamespaces:
		return nil, false, errTooManyNamespaces
	case published:
		n.active[key] = ns
	case !known:
		return nil, false, violation("NAMESPACE_DONE without NAMESPACE")
	default:
		delete(n.active, key)
	}
	return ns, published != known, nil
}

// closed implements role.
func (n *NamespaceSubscription) closed() (error, bool) { return ErrFinished, true }

// ended implements role.
func (n *NamespaceSubscription) ended() {
	gone := n.active
	n.active = nil
	n.disappear(gone)
}

// IncomingSubscribeNamespace is a SUBSCRIBE_NAMESPACE of the peer (draft §6.1).
type IncomingSubscribeNamespace struct {
	prefixSubscription
	Message moqt.SubscribeNamespace
	active  map[string]moqt.Namespace // what the peer was told of; guarded by s.mu
}

// Add tells the peer of a namespace that has the prefix, unless it knows of it already.
func (n *IncomingSubscribeNamespace) Add(ns moqt.Namespace) error {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	suffix, err := n.suffix(ns)
	if _, known := n.active[ns.Key()]; known || err != nil {
		return err
	}
	n.active[ns.Key()] = ns
	return n.out.send(&moqt.NamespaceAdded{Suffix: suffix})
}

// Remove tells the peer that a namespace is gone, if it knows of it.
func (n *IncomingSubscribeNamespace) Remove(ns moqt.Namespace) error {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	if _, known := n.active[ns.Key()]; !known {
		return nil
	}
	suffix, err := n.suffix(ns)
	if err != nil {
		return err
	}
	delete(n.active, ns.Key())
	return n.out.send(&moqt.NamespaceDone{Suffix: suffix})
}

// admit implements role.
func (n *IncomingSubscribeNamespace) admit() error {
	n.active = make(map[string]moqt.Namespace)
	return asError(n.enterPrefix(n.Message.Prefix))
}

// serve implements role.
func (n *IncomingSubscribeNamespace) serve(h Handler) { h.HandleSubscribeNamespace(n) }

// updating implements role. Suffixes are relative to the new prefix from now on; what does not have it cannot be named
// any more, and is gone for the peer (draft §10.9.2).
func (n *IncomingSubscribeNamespace) updating(u *Update, response *moqt.Parameters) *moqt.RequestError {
	refused := n.prefixSubscription.updating(u, response)
	if refused == nil && u.Parameters.NamespacePrefix != nil {
		maps.DeleteFunc(n.active, func(_ string, ns moqt.Namespace) bool {
			return !ns.HasPrefix(*u.Parameters.NamespacePrefix)
		})
	}
	return refused
}
