package relay

import (
	"cmp"
	"strings"
)

// Scoping returns the scope of a session (draft §2.4.3), given the authority and path that the client connected to.
// Sessions of different scopes have no tracks or namespaces in common, whatever their names.
type Scoping func(authority, path string) string

// OneScope puts all sessions into one scope.
func OneScope(string, string) string { return "" }

// ScopeByPath makes a scope of each path, query included.
func ScopeByPath(_, path string) string { return cmp.Or(path, "/") }

// ScopeByURL makes a scope of each authority and path, as the draft assumes of a server that does not say otherwise.
// Some clients leave the default port out of the authority, others do not.
func ScopeByURL(authority, path string) string {
	return strings.TrimSuffix(strings.ToLower(authority), ":443") + ScopeByPath(authority, path)
}
