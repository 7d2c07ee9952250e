package pub

import (
	"time"

	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/player/cmaf"
	"sluice/player/loc"
)

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

// wireProperties returns the properties of the object on sessions of a version. It fails only for a configuration that
// is longer than a property, which no decoder has.
func (o *object) wireProperties(v moqt.Version) moqt.Properties {
	if o.frame == nil {
		return nil
	}
	p, err := o.frame.Properties(v)
	if err != nil {
		return nil
	}
	return p
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
