package pub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"sluice/player/cmaf"
)

// feed reads the input and adds its chunks as objects to their tracks.
type feed struct {
	cfg       *PublisherConfig
	init      *cmaf.Init
	broadcast *broadcast
	groups    *grouper
	stats     *Stats
	pace      pacer
	log       *slog.Logger

	chunks  uint32
	shift   time.Duration // added to media times of this round: the length of the rounds before
	longest time.Duration // media time at which this round ends, so far
	waiting int           // number of chunks before the first key frame, which are left out
}

// run publishes the input until its end, or until the context is done. It returns nil in both cases.
func (f *feed) run(ctx context.Context, s *source) error {
	for {
		err := f.round(ctx, s)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil || !f.cfg.Loop {
			return err
		}
		if f.longest == 0 {
			return &InputError{errors.New("nothing to loop: the input has no media")}
		}
		f.shift, f.longest = f.shift+f.longest, 0
		if s, err = openSource(f.cfg); err != nil {
			return fmt.Errorf("loop: %w", err)
		}
		if string(s.init.Data) != string(f.init.Data) {
			_ = s.Close()
			return &InputError{errors.New("the file was replaced by one with other tracks between two rounds")}
		}
	}
}

// round publishes one pass over the input.
func (f *feed) round(ctx context.Context, s *source) error {
	defer s.Close()
	for {
		c, err := s.Next()
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			f.log.Warn("the input ends within a chunk; all chunks before it were published", "error", err)
			fallthrough
		case err == io.EOF:
			return nil
		case err != nil:
			return &InputError{err}
		}
		if err := f.publish(ctx, c); err != nil {
			return err
		}
	}
}

// publish waits until a chunk is due and adds it to its track.
func (f *feed) publish(ctx context.Context, c cmaf.Chunk) error {
	t := f.init.Track(c.Track)
	f.chunks++
	if f.shift > 0 {
		c = c.Later(t.Ticks(f.shift), f.chunks)
	}
	f.longest = max(f.longest, t.Time(c.DecodeTime+c.Duration)-f.shift)
	group, starts, ok := f.groups.place(c)
	if f.groups.strayed() {
		f.log.Warn("the renditions are not aligned: key frames have to be at the same times, "+
			"or players cannot change between them", "track", c.Track, "time", t.Time(c.DecodeTime))
	}
	if !ok {
		if f.waiting++; f.waiting == 1 {
			f.log.Warn("the input does not start with a key frame: chunks before the first one are left out",
				"track", c.Track)
		}
		return nil
	}
	if !f.cfg.Unpaced {
		if err := f.pace.wait(ctx, t.Time(c.DecodeTime)); err != nil {
			return err
		}
	} else if err := ctx.Err(); err != nil {
		return err
	}
	track := f.broadcast.media[c.Track]
	objects, err := f.add(track, c, group, starts)
	for _, o := range objects {
		f.stats.published(t.Time(c.DecodeTime+c.Duration), len(o.payload))
	}
	if track.layered != nil && err == nil {
		_, err = f.add(track.layered, c, group, starts)
	}
	return err
}

// add adds the objects of a chunk to a track.
func (f *feed) add(t *track, c cmaf.Chunk, group uint64, starts bool) ([]object, error) {
	if starts {
		t.startGroup(group)
	}
	objects, err := f.objects(t, c, starts)
	for _, o := range objects {
		t.add(o)
	}
	return objects, err
}
