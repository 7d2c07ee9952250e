package pub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"sluice/player/catalog"
	"sluice/player/cmaf"
	"sluice/player/loc"
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
			f.log.Warn("the input ends within a chunk; all chunks before it were published", "err", err)
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

// frames makes objects of the samples of a chunk, one for each.
func (f *feed) frames(t *track, c cmaf.Chunk, starts bool) ([]object, error) {
	info := f.init.Track(c.Track)
	samples, err := f.init.Samples(c.Data)
	if err != nil {
		return nil, &InputError{err}
	}
	var objects []object
	for i, s := range samples {
		first := starts && i == 0
		frame := &loc.Frame{
			Timestamp: uint64(max(int64(s.DecodeTime)+int64(s.Offset), 0)), Timescale: uint64(info.Timescale),
			Video: info.Kind == cmaf.Video, Key: s.Sync, Disposable: !first && t.dependency.Disposable(s.Data),
		}
		if first {
			frame.Config = info.Config
		}
		o := f.object(t, s.Data, first, frame.Disposable)
		o.frame = frame
		o.datagram = t.datagrams && len(s.Data)+len(o.wireProperties(0)) <= maxDatagramPayload
		objects = append(objects, o)
	}
	return objects, nil
}

// chunk makes one object of a chunk. Its frames are disposable if all are.
func (f *feed) chunk(t *track, c cmaf.Chunk, starts bool) object {
	disposable := false
	if t.layers.disposable() && !starts {
		samples, err := f.init.Samples(c.Data)
		disposable = err == nil && len(samples) > 0
		for _, s := range samples {
			disposable = t.dependency.Disposable(s.Data) && disposable
		}
	}
	o := f.object(t, c.Data, starts, disposable)
	o.datagram = t.datagrams && len(c.Data) <= maxDatagramPayload
	return o
}

// objects returns the objects of a chunk.
func (f *feed) objects(t *track, c cmaf.Chunk, starts bool) ([]object, error) {
	if f.cfg.Packaging == catalog.LOC {
		return f.frames(t, c, starts)
	}
	return []object{f.chunk(t, c, starts)}, nil
}

// object returns an object with its layer.
func (f *feed) object(t *track, payload []byte, starts, disposable bool) object {
	o := object{born: time.Now(), payload: payload}
	o.subgroup, o.priority = t.layers.of(starts, disposable)
	return o
}

// checkPackaging returns an error if the tracks of the input cannot have the packaging.
func checkPackaging(in *cmaf.Init, packaging string) error {
	for _, t := range in.Tracks {
		if packaging != catalog.LOC {
			continue
		}
		if err := loc.CheckLengths(t.Codec, t.Config); err != nil {
			return &InputError{err}
		}
	}
	return nil
}
