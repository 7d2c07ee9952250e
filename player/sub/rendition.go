package sub

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/player/catalog"
	"sluice/player/cmaf"
)

// Renditions by bitrate, besides names and heights.
const (
	RenditionBest  = "best"
	RenditionLeast = "least"
	RenditionRelay = "relay" // now this one, now that one, as the relay chooses
)

// ErrNoRendition is returned if the catalog has not the rendition that is wanted.
var ErrNoRendition = errors.New("no rendition")

// selected is a track to play. If it is one of several renditions and the relay may choose, it has the others, too.
type selected struct {
	catalog.TrackEntry
	others []catalog.TrackEntry
}

// selectTracks returns the playable tracks with a wanted name or role, or by default all, but only one of each
// alternate group unless its name is wanted.
func selectTracks(c catalog.Catalog, cfg *PlayerConfig) ([]selected, error) {
	var candidates []catalog.TrackEntry
	found := map[string]bool{}
	for _, t := range c.Tracks {
		wanted := len(cfg.Tracks) == 0 || slices.Contains(cfg.Tracks, t.Name) || slices.Contains(cfg.Tracks, t.Role)
		if wanted && slices.Contains(playable, t.Packaging) {
			found[t.Name], found[t.Role] = true, true
			candidates = append(candidates, t)
		}
	}
	for _, w := range cfg.Tracks {
		if !found[w] {
			return nil, fmt.Errorf("no track %q to play; the catalog has %s", w, names(c))
		}
	}
	if len(candidates) == 0 {
		return nil, fmt.Errorf("nothing to play: the catalog has %s", names(c))
	}
	return alternatives(candidates, cfg)
}

// alternatives returns the tracks, but one of each alternate group.
func alternatives(tracks []catalog.TrackEntry, cfg *PlayerConfig) (chosen []selected, err error) {
	done := map[int]bool{}
	// The only track is the best, and the least.
	matched := cfg.automatic() || cfg.Rendition == RenditionBest || cfg.Rendition == RenditionLeast
	for _, t := range tracks {
		if t.AltGroup == 0 || slices.Contains(cfg.Tracks, t.Name) {
			matched = matched || isRendition(t, cfg.Rendition)
			chosen = append(chosen, selected{TrackEntry: t})
			continue
		}
		if done[t.AltGroup] {
			continue
		}
		done[t.AltGroup] = true
		group := slices.DeleteFunc(slices.Clone(tracks), func(o catalog.TrackEntry) bool {
			return o.AltGroup != t.AltGroup || slices.Contains(cfg.Tracks, o.Name)
		})
		best, ok := oneOf(group, cfg)
		matched = matched || ok
		s := selected{TrackEntry: best}
		if cfg.automatic() && cfg.Verify == nil {
			s.others = slices.DeleteFunc(group, func(o catalog.TrackEntry) bool { return !continues(best, o, cfg) })
		}
		chosen = append(chosen, s)
	}
	if !matched {
		return nil, fmt.Errorf("%w %q; the catalog has %s", ErrNoRendition, cfg.Rendition,
			names(catalog.Catalog{Tracks: tracks}))
	}
	return chosen, nil
}

// oneOf returns the track of an alternate group to play: the wanted one, or the best one within the bitrate, or the
// least one if none is. By default it is the first one. ok is false if none is the wanted one.
func oneOf(group []catalog.TrackEntry, cfg *PlayerConfig) (best catalog.TrackEntry, ok bool) {
	byBitrate := func(a, b catalog.TrackEntry) int { return cmp.Compare(a.Bitrate, b.Bitrate) }
	if i := slices.IndexFunc(group, func(t catalog.TrackEntry) bool { return isRendition(t, cfg.Rendition) }); i >= 0 {
		return group[i], true
	}
	least := slices.MinFunc(group, byBitrate)
	fitting := slices.DeleteFunc(slices.Clone(group), func(t catalog.TrackEntry) bool {
		return cfg.MaxBitrate > 0 && t.Bitrate > cfg.MaxBitrate
	})
	switch {
	case cfg.Rendition == RenditionLeast || len(fitting) == 0:
		return least, true
	case cfg.Rendition == RenditionBest || cfg.MaxBitrate > 0:
		return slices.MaxFunc(fitting, byBitrate), cfg.automatic() || cfg.Rendition == RenditionBest
	}
	return group[0], cfg.automatic()
}

// automatic reports whether the relay may choose among renditions.
func (c *PlayerConfig) automatic() bool { return c.Rendition == "" || c.Rendition == RenditionRelay }

// continues reports whether another rendition may go on where one ends. Audio is so small that nothing is gained.
func continues(t, other catalog.TrackEntry, cfg *PlayerConfig) bool {
	codec := func(t catalog.TrackEntry) string {
		name, _, _ := strings.Cut(t.Codec, ".")
		return name
	}
	return other.Name != t.Name && t.Role == string(cmaf.Video) && other.Role == t.Role &&
		other.Packaging == t.Packaging && codec(other) == codec(t) && other.Timescale == t.Timescale &&
		t.Bitrate > 0 && other.Bitrate > 0 && (cfg.MaxBitrate == 0 || other.Bitrate <= cfg.MaxBitrate)
}

// isRendition reports whether a track has that name or height, as in "720p".
func isRendition(t catalog.TrackEntry, wanted string) bool {
	return wanted != "" && (t.Name == wanted || t.Height > 0 && fmt.Sprintf("%dp", t.Height) == wanted)
}
