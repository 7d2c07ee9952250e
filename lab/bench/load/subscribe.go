package load

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"sluice/lab/bench/video"
	"sluice/moqt"
)

// parallelSessions is how many sessions are set up at a time.
const parallelSessions = 8

// subscribe runs the sessions, and reports when each has received as many objects as the command Stop names.
func (g *generator) subscribe(ctx context.Context) error {
	receivers := make([]*receiver, g.Sessions)
	connections := make([]*connection, g.Sessions)
	defer func() {
		var all sync.WaitGroup
		for _, c := range connections {
			if c != nil {
				all.Go(c.close)
			}
		}
		all.Wait()
	}()
	var group errgroup.Group
	group.SetLimit(parallelSessions)
	for i := range receivers {
		receivers[i] = newReceiver(g.Mock, g.Record && i == 0)
		if g.Audio {
			receivers[i].audio = newReceiver(video.Audio, g.Record && i == 0)
		}
		group.Go(func() (err error) {
			connections[i], err = g.join(ctx, receivers[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	g.receivers.Store(&receivers)
	if err := g.out.Encode(Event{Ready: true}); err != nil {
		return err
	}
	return g.report(ctx, receivers)
}

// join opens a session and subscribes.
func (g *generator) join(ctx context.Context, r *receiver) (*connection, error) {
	c, err := g.connect(ctx, nil)
	if err != nil {
		return nil, err
	}
	if g.Ladder {
		err = g.climb(ctx, c, r)
	} else {
		_, _, err = c.subscribe(ctx, g.name(), moqt.FilterLargestObject, moqt.Parameters{}, r)
	}
	if err == nil && r.audio != nil {
		_, _, err = c.subscribe(ctx, g.audioName(), moqt.FilterLargestObject, moqt.Parameters{}, r.audio)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// report waits for the command Stop, then for the objects that are still under way.
func (g *generator) report(ctx context.Context, receivers []*receiver) error {
	argument, err := g.await(ctx, Stop)
	if err != nil {
		return err
	}
	expected, err := strconv.ParseUint(argument, 10, 64)
	if err != nil {
		return fmt.Errorf("command: %s %q: must have a number of objects: %w", Stop, argument, err)
	}
	deadline, cancel := context.WithTimeout(ctx, Stragglers)
	defer cancel()
	for _, r := range receivers {
		r.waitFor(deadline, expected)
		if r.settle != nil {
			r.settle()
		}
	}
	results := make([]Received, len(receivers))
	for i, r := range receivers {
		results[i] = r.result()
	}
	return g.out.Encode(Event{Received: results})
}
