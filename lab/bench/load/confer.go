package load

import (
	"context"

	"sluice/moqt"
)

// confer publishes the video, and receives all others' in the same session.
func (g *generator) confer(ctx context.Context) error {
	h := g.newPublisher()
	c, err := g.offer(ctx, h)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := g.await(ctx, Join); err != nil {
		return err
	}
	receivers := make([]*receiver, len(g.Others))
	for i, other := range g.Others {
		receivers[i] = newReceiver(g.Mock, true)
		track := g.nameIn(other)
		if _, _, err := c.subscribe(ctx, track, moqt.FilterLargestObject, moqt.Parameters{}, receivers[i]); err != nil {
			return err
		}
	}
	if err := g.ready(receivers); err != nil {
		return err
	}
	done, err := g.perform(ctx, h)
	if err != nil {
		return err
	}
	if err := g.out.Encode(Event{Published: done}); err != nil {
		return err
	}
	if err := g.report(ctx, receivers); err != nil {
		return err
	}
	_, err = g.await(ctx, Stop) // others may still lack objects
	return err
}
