package relay

import (
	"cmp"
	"strings"

	"sluice/moqt"
)

// Scoping says to which scope a session belongs (draft §2.4.3): sessions of different scopes have no tracks or namespaces in common, whatever
// the names. It gets what the client connected to.
type Scoping func(authority, path string) string

// OneScope has all sessions in one scope.
func OneScope(string, string) string { return "" }

// ScopeByPath makes a scope of each path, query included.
func ScopeByPath(_, path string) string { return cmp.Or(path, "/") }

// ScopeByURL makes a scope of each authority and path, as the draft assumes of servers of which nothing else is known.
func ScopeByURL(authority, path string) string {
	return strings.ToLower(authority) + ScopeByPath(authority, path)
}

// place is where something is found in the relay's trees: below its scope.
type place = moqt.Namespace

func placeOf(scope string, ns moqt.Namespace) place {
	return append(place{scope}, ns...)
}

// place is that of a namespace in the peer's scope.
func (p *peer) place(ns moqt.Namespace) place { return placeOf(p.scope, ns) }
