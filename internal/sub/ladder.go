package sub

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/cmaf"
	"sluice/internal/loc"
	"sluice/internal/rendition"
	"sluice/moqt"
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

// mediaTime returns the time of an object.
func (s *source) mediaTime(i item) (at time.Duration, ok bool) {
	if s.frames == nil {
		chunk, err := s.init.ParseChunk(i.payload)
		if err != nil || chunk.Track != s.track.ID {
			return 0, false
		}
		return s.track.Time(chunk.DecodeTime), true
	}
	return s.frames.time(i)
}

// ladder has the renditions of a lane, by bitrate.
type ladder struct {
	sources []*source
	meter   rendition.Meter
	chooser *rendition.Chooser
	display rendition.Playback
}

// newLadder returns the ladder of a choice with alternatives, without those that cannot continue it.
func newLadder(c choice, playing *source, display rendition.Playback) (*ladder, error) {
	la := &ladder{sources: []*source{playing}, display: display}
	for _, o := range c.others {
		s, err := newSource(o, c.id)
		if err != nil {
			return nil, err
		}
		if s.continues(playing) {
			la.sources = append(la.sources, s)
		}
	}
	la.set(la.sources, playing)
	return la, nil
}

// set sets the renditions, and the one to go on with.
func (la *ladder) set(sources []*source, playing *source) {
	slices.SortStableFunc(sources, func(a, b *source) int { return a.entry.Bitrate - b.entry.Bitrate })
	var renditions []rendition.Rendition
	for _, s := range sources {
		renditions = append(renditions, rendition.Rendition{
			Bitrate: s.entry.Bitrate, Pixels: uint64(max(s.entry.Width, 0)) * uint64(max(s.entry.Height, 0)),
		})
	}
	la.sources = sources
	la.chooser = rendition.NewChooser(&la.meter, renditions, slices.Index(sources, playing))
	la.chooser.Report(time.Now(), la.display)
}

// goOn makes the rendition that was changed to the current one, if a catalog has come meanwhile, whose chooser has not
// chosen it.
func (la *ladder) goOn(with *source) {
	if la.wanted() != with && slices.Contains(la.sources, with) {
		la.set(la.sources, with)
	}
}

// setRenditionsLocked sets the renditions of a lane. If they are not those that it has already, it goes on with the one
// that is subscribed to; or else with the one that was chosen before, or with the best one that is not better.
func (l *lane) setRenditionsLocked(sources []*source, display rendition.Playback) {
	before := l.sourcesLocked()
	same := !slices.ContainsFunc(sources, func(s *source) bool { return !slices.Contains(before, s) })
	if same && len(sources) == len(before) {
		return
	}
	playing := l.wantedLocked()
	if slices.Contains(sources, l.subscribed) {
		playing = l.subscribed
	}
	if !slices.Contains(sources, playing) {
		worse := slices.DeleteFunc(slices.Clone(sources), func(s *source) bool {
			return s.entry.Bitrate > playing.entry.Bitrate
		})
		byBitrate := func(a, b *source) int { return a.entry.Bitrate - b.entry.Bitrate }
		if playing = slices.MinFunc(sources, byBitrate); len(worse) > 0 {
			playing = slices.MaxFunc(worse, byBitrate)
		}
	}
	if l.ladder == nil {
		l.ladder = &ladder{display: display}
	}
	l.ladder.set(sources, playing)
}

// isWithdrawnLocked reports whether the rendition that was subscribed to last is none of the renditions any more.
func (l *lane) isWithdrawnLocked() bool {
	return l.subscribed != nil && !slices.Contains(l.sourcesLocked(), l.subscribed)
}

// continues reports whether the chunks of a source can be made anew so that they continue another source's.
func (s *source) continues(other *source) bool {
	if s.track == nil || other.track == nil {
		return s.track == other.track
	}
	encrypted := strings.HasPrefix(s.track.Codec, "enc") // the sample entries encv and enca
	return !encrypted && s.track.Timescale == other.track.Timescale
}

// wanted returns the rendition that has been chosen.
func (la *ladder) wanted() *source { return la.sources[la.chooser.Current()] }

// arrivedLocked measures an object of a subscription.
func (l *lane) arrivedLocked(i item) {
	if l.ladder == nil {
		return
	}
	if at, ok := i.source.mediaTime(i); ok {
		l.ladder.meter.Arrived(i.arrived, at, len(i.payload), i.arrived.Sub(i.began))
		l.ladder.chooser.Began(i.arrived, slices.Index(l.ladder.sources, i.source))
	}
}

// skipLocked leaves out what has not come in time.
func (l *lane) skipLocked(now time.Time) {
	before := l.seq.counted.Lost
	l.seq.skip()
	if l.ladder != nil {
		l.ladder.meter.Skipped(now, int(l.seq.counted.Lost-before))
	}
}

// wantedLocked returns the source to subscribe to.
func (l *lane) wantedLocked() *source {
	if l.ladder == nil {
		return l.source
	}
	return l.ladder.wanted()
}

// sources returns the tracks that the lane may take objects from.
func (l *lane) sourcesLocked() []*source {
	if l.ladder == nil {
		return []*source{l.source}
	}
	return l.ladder.sources
}

// sourcesOf returns the tracks that a lane may take objects from.
func (p *player) sourcesOf(l *lane) []*source {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.sourcesLocked()
}

// switchLocked goes on with another rendition, at the start of a group. An init segment comes first.
func (p *player) switchLocked(l *lane, to *source) {
	l.source, l.switched, p.headed = to, true, false
	l.switches++
	if to.frames != nil {
		to.frames.mux.InBand()
	}
}

// rewrite makes a chunk anew, so that it belongs to the same track as those of the other renditions, for players that
// ignore further init segments: it says all that the init segment has defaults for, and key frames have the parameter
// sets.
func (l *lane) rewrite(chunk []byte) ([]byte, error) {
	samples, err := l.init.Samples(chunk)
	if err != nil {
		return nil, fmt.Errorf("a rendition cannot be continued with another one, choose it with --rendition: %w", err)
	}
	sets := loc.ParameterSets(l.track.Codec, l.track.Config)
	for i := range samples {
		if s := &samples[i]; s.Sync && len(sets) > 0 {
			s.Data = slices.Concat(sets, s.Data)
		}
	}
	if len(samples) == 0 {
		return nil, nil
	}
	l.chunks++
	return cmaf.MakeChunk(l.id, l.chunks, samples), nil
}

// continues returns the first group of a rendition that has accepted a subscription from its next group on: it is also
// the first one of which nothing has come yet of the rendition before. ok is false if the groups of the two have
// different ids.
func (s *sequencer) continues(largest *moqt.Location) (group uint64, ok bool) {
	if largest == nil {
		return s.newest + 1, true
	}
	const apart = 2
	group = max(largest.Group, s.newest) + 1
	return group, largest.Group <= s.newest+apart && s.newest <= largest.Group+apart
}
