package sub

import (
	"strings"

	"sluice/player/cmaf"
	"sluice/player/loc"
)

// source is a track that a lane takes objects from. A lane has several if they are renditions of one content.
type source struct {
	choice
	init   *cmaf.Init      // with which its chunks are read; nil: objects are frames
	track  *cmaf.TrackInfo // nil: the timing is not known, objects are released as they come
	frames *frames         // nil: objects are chunks
}

// newSource returns the source of a choice, as the track with the given ID in the output.
func newSource(c choice, id uint32) (*source, error) {
	if !c.frames() {
		return &source{choice: c, init: c.init, track: c.init.Track(c.id)}, nil
	}
	mux, err := loc.NewMuxer(id, c.entry)
	if err != nil {
		return nil, &MediaError{err}
	}
	return &source{choice: c, frames: &frames{packaging: c.entry.Packaging, mux: mux}}, nil
}

// codec returns the name of the codec (RFC 6381).
func (s *source) codec() string {
	if s.track != nil {
		return s.track.Codec
	}
	return s.entry.Codec
}

// initAs returns the init segment of the source, as a track with that ID.
func (s *source) initAs(id uint32) (*cmaf.Init, error) {
	if s.frames != nil {
		data, err := s.frames.mux.Init()
		if err != nil {
			return nil, err
		}
		return cmaf.ParseInit(data)
	}
	in, err := cmaf.ParseInit(s.init.Only(s.track.ID))
	if err != nil {
		return nil, err
	}
	return in.Renumber(map[uint32]uint32{s.track.ID: id})
}

// renditionsOf returns the sources of a choice with alternatives, but for those that cannot continue the present one.
func renditionsOf(c choice, playing *source) ([]*source, error) {
	sources := []*source{playing}
	for _, o := range c.others {
		s, err := newSource(o, c.id)
		if err != nil {
			return nil, err
		}
		if s.continues(playing) {
			sources = append(sources, s)
		}
	}
	return sources, nil
}

// continues reports whether the chunks of a source can be made anew so that they continue another source's.
func (s *source) continues(other *source) bool {
	if s.track == nil || other.track == nil {
		return s.track == other.track
	}
	encrypted := strings.HasPrefix(s.track.Codec, "enc") // the sample entries encv and enca
	return !encrypted && s.track.Timescale == other.track.Timescale
}
