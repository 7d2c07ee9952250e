package load

import (
	"errors"

	"sluice/moqt/session"
)

// errCannotChoose is why a relay has no numbers for a ladder.
var errCannotChoose = errors.New("this relay does not choose renditions")

// rung takes the objects of a rendition.
type rung struct {
	*receiver
	rank int
}

// HandleSubgroup implements [session.Receiver].
func (r rung) HandleSubgroup(g *session.Subgroup) { r.read(g, r.rank) }
