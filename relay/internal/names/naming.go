package names

import (
	"strings"

	"sluice/moqt"
)

// Place is a namespace with its scope in front: the key of trees.
type Place = moqt.Namespace

// PlaceOf returns the place of a namespace in a scope.
func PlaceOf(scope string, ns moqt.Namespace) Place { return append(Place{scope}, ns...) }

// Naming is how a peer names places: in its scope, without it, or in all scopes, with marks in front. Who names all is
// also told of the tracks that are offered (PUBLISH), as of namespaces: such a namespace has a mark of its own, and the
// name of the track as its last field. A process of an older version ignores these.
type Naming struct {
	Scope string
	All   bool
}

const (
	// scopeMark comes before the scope, as no field of a namespace is empty.
	scopeMark = "="
	// trackMark comes before the scope in namespaces that stand for tracks.
	trackMark = "+"
	// nameMark comes before the track's name, which may be empty.
	nameMark = "="
)

// Place is where a namespace is. It is nil if the peer has to name a scope, and does not.
func (n Naming) Place(ns moqt.Namespace) Place {
	if !n.All {
		return PlaceOf(n.Scope, ns)
	}
	if len(ns) == 0 {
		return nil
	}
	scope, ok := strings.CutPrefix(ns[0], scopeMark)
	if !ok {
		return nil
	}
	return PlaceOf(scope, ns[1:])
}

// Namespace is the reverse of Place. The namespace may be too long.
func (n Naming) Namespace(at Place) moqt.Namespace {
	if !n.All {
		return at[1:]
	}
	return PlaceOf(scopeMark+at[0], at[1:])
}

// offer is the namespace that stands for a track. It may be too long.
func offer(at Place, track string) moqt.Namespace {
	return append(PlaceOf(trackMark+at[0], at[1:]), nameMark+track)
}

// Offered is the reverse of offer. It returns false if the namespace stands for no track.
func (n Naming) Offered(ns moqt.Namespace) (at Place, track string, ok bool) {
	if !n.All || len(ns) < 2 {
		return nil, "", false
	}
	scope, marked := strings.CutPrefix(ns[0], trackMark)
	track, named := strings.CutPrefix(ns[len(ns)-1], nameMark)
	return PlaceOf(scope, ns[1:len(ns)-1]), track, marked && named
}
