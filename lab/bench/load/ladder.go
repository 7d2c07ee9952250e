package load

import (
	"context"
	"errors"

	"sluice/moqt"
	"sluice/moqt/session"
)

// errCannotChoose is why a relay has no numbers for a ladder.
var errCannotChoose = errors.New("this relay does not choose renditions")

// climb subscribes to all renditions of the video, among which the relay chooses. It begins with the best one.
func (g *generator) climb(ctx context.Context, c *connection, r *receiver) error {
	peer, err := c.Peer(ctx)
	if err != nil {
		return err
	}
	if !peer.Renditions || c.Version() < moqt.Draft18 {
		return errCannotChoose
	}
	of := g.Mock.Ladder()
	best := len(of) - 1
	for rank := best; rank >= 0; rank-- {
		p := moqt.Parameters{Rendition: &moqt.Rendition{Bitrate: uint64(of[rank].Rate)}}
		from := moqt.FilterLargestObject
		if rank != best {
			p.Forward, from = new(false), moqt.FilterRelativeStart
		}
		if _, _, err := c.subscribe(ctx, g.renditionName(rank, best), from, p, rung{r, rank}); err != nil {
			return err
		}
	}
	return nil
}

// rung takes the objects of a rendition.
type rung struct {
	*receiver
	rank int
}

// HandleSubgroup implements [session.Receiver].
func (r rung) HandleSubgroup(g *session.Subgroup) { r.read(g, r.rank) }
