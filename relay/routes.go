package relay

import (
	"slices"

	"sluice/moqt"
)

// Routes says which upstream relays may have the tracks that no publisher of this process has. See
// [Neighbors.SetRoutes].
type Routes interface {
	// Upstreams returns the upstream relays that may have the tracks of a namespace, the preferred one first. The relay
	// asks the first one that is connected, and the next if that has no publisher. It calls this method with locks
	// held: the method must return at once and must not call the relay.
	Upstreams(scope string, ns moqt.Namespace) []*UpstreamRelay
}

// Route names the upstream relays for the namespaces with a prefix, the preferred one first.
type Route struct {
	Prefix    moqt.Namespace
	Upstreams []*UpstreamRelay
}

// RouteTable is a [Routes] that does not change. Of the routes in a scope, the route with the longest prefix counts.
type RouteTable []Route

// Upstreams implements Routes.
func (t RouteTable) Upstreams(scope string, ns moqt.Namespace) (best []*UpstreamRelay) {
	length := -1
	for _, r := range t {
		if len(r.Prefix) <= length || !ns.HasPrefix(r.Prefix) {
			continue
		}
		otherScope := func(u *UpstreamRelay) bool { return u.scope != scope }
		if in := slices.DeleteFunc(slices.Clone(r.Upstreams), otherScope); len(in) > 0 {
			best, length = in, len(r.Prefix)
		}
	}
	return best
}
