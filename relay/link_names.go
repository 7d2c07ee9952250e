package relay

import (
	"strings"

	"sluice/moqt"
)

// Links name tracks and namespaces by their places, with marks in front. They also tell of the tracks that publishers
// have offered (PUBLISH), for subscribers that have sent SUBSCRIBE_TRACKS to another process. They do so as of
// namespaces, in answer to the same SUBSCRIBE_NAMESPACE: such a namespace has a mark of its own, and the name of the
// track as its last field.
const (
	// scopeMark comes before the scope, as no field of a namespace is empty.
	scopeMark = "="
	// trackMark comes before the scope in namespaces that stand for tracks.
	trackMark = "+"
	// nameMark comes before the track's name, which may be empty.
	nameMark = "="
)

// namespaceOnLink is how links name a place.
func namespaceOnLink(at place) moqt.Namespace {
	return placeOf(scopeMark+at[0], at[1:])
}

// placeOnLink is the reverse. It returns nil if there is no scope.
func placeOnLink(ns moqt.Namespace) place {
	if len(ns) == 0 {
		return nil
	}
	scope, ok := strings.CutPrefix(ns[0], scopeMark)
	if !ok {
		return nil
	}
	return placeOf(scope, ns[1:])
}

// trackOnLink is how links name a track that is offered.
func trackOnLink(h *hub) moqt.Namespace {
	return append(placeOf(trackMark+h.place[0], h.place[1:]), nameMark+h.name.Name)
}

// offerOnLink is the reverse. It returns false if the namespace stands for no track.
func offerOnLink(ns moqt.Namespace) (at place, name string, ok bool) {
	if len(ns) < 2 {
		return nil, "", false
	}
	scope, marked := strings.CutPrefix(ns[0], trackMark)
	name, named := strings.CutPrefix(ns[len(ns)-1], nameMark)
	return placeOf(scope, ns[1:len(ns)-1]), name, marked && named
}
