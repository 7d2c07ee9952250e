package sub

import (
	"cmp"
	"context"
	"fmt"
	"hash"
	"slices"
	"time"

	"sluice/player/cmaf"
	"sluice/player/loc"
)

// lane is the player's state of one track, or of the renditions of one content. The player's mutex guards it.
type lane struct {
	*source        // whose objects are being released
	id      uint32 // of the track in the output
	name    string
	seq     *sequencer
	check   *verifier // nil: the track is not verified
	// renditions are the sources of the content, this one among them, unless the catalog has only one.
	renditions []*source

	subscribed *source // to which there was a subscription last
	switched   bool    // another rendition was played before
	switches   int
	chunks     uint32 // that were made anew

	expected time.Duration // decode time of the next chunk, if there is no gap
	opened   time.Time     // when the first object arrived, while the start of the track is not known
	sum      hash.Hash
	resets   uint64 // streams that were reset
	failed   error  // why the track ended, if it did not end well

	played   context.Context // done when playback leaves the track out; listed is done then, too
	leaveOut context.CancelFunc
	listed   context.Context // done when the catalog does not have the track any more
	withdraw context.CancelFunc
}

// sourcesLocked returns the tracks that the lane may take objects from.
func (l *lane) sourcesLocked() []*source {
	if l.renditions == nil {
		return []*source{l.source}
	}
	return l.renditions
}

// wantedLocked returns the source to subscribe to: its present source, unless the catalog does not have it
// any more. Then it is the best source that is not better, or else the least.
func (l *lane) wantedLocked() *source {
	sources := l.sourcesLocked()
	if slices.Contains(sources, l.source) {
		return l.source
	}
	byBitrate := func(a, b *source) int { return cmp.Compare(a.entry.Bitrate, b.entry.Bitrate) }
	worse := slices.DeleteFunc(slices.Clone(sources), func(s *source) bool { return byBitrate(s, l.source) > 0 })
	if len(worse) > 0 {
		return slices.MaxFunc(worse, byBitrate)
	}
	return slices.MinFunc(sources, byBitrate)
}

// isWithdrawnLocked reports whether the rendition that was subscribed to last is none of the renditions any more.
func (l *lane) isWithdrawnLocked() bool {
	return l.subscribed != nil && !slices.Contains(l.sourcesLocked(), l.subscribed)
}

// waitsLocked reports whether a lane of frames has not had one with which decoding can start. Until then there is no
// init segment.
func (l *lane) waitsLocked() bool { return l.frames != nil && !l.frames.mux.Ready() }

// rewrite makes a chunk anew, so that it belongs to the same track as other renditions' chunks, for players that
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
