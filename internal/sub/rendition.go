package sub

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/internal/catalog"
)

// Renditions by bitrate, besides names and heights.
const (
	RenditionBest  = "best"
	RenditionLeast = "least"
)

// selectTracks returns the playable tracks with a wanted name or role, or by default all, but only one of each
// alternate group unless its name is wanted.
func selectTracks(c catalog.Catalog, cfg *PlayerConfig) ([]catalog.TrackEntry, error) {
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
func alternatives(tracks []catalog.TrackEntry, cfg *PlayerConfig) (chosen []catalog.TrackEntry, err error) {
	done := map[int]bool{}
	matched := cfg.Rendition == ""
	for _, t := range tracks {
		if t.AltGroup == 0 || slices.Contains(cfg.Tracks, t.Name) {
			matched = matched || isRendition(t, cfg.Rendition)
			chosen = append(chosen, t)
			continue
		}
		if done[t.AltGroup] {
			continue
		}
		done[t.AltGroup] = true
		group := slices.DeleteFunc(slices.Clone(tracks), func(o catalog.TrackEntry) bool {
			return o.AltGroup != t.AltGroup || slices.Contains(cfg.Tracks, o.Name)
		})
		best, ok := rendition(group, cfg)
		matched = matched || ok
		chosen = append(chosen, best)
	}
	if !matched {
		return nil, fmt.Errorf("no rendition %q; the catalog has %s", cfg.Rendition,
			names(catalog.Catalog{Tracks: tracks}))
	}
	return chosen, nil
}

// rendition returns the track of an alternate group to play: the wanted one, or the best one within the bitrate, or the
// least one if none is. By default it is the first one. ok is false if none is the wanted one.
func rendition(group []catalog.TrackEntry, cfg *PlayerConfig) (best catalog.TrackEntry, ok bool) {
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
		return slices.MaxFunc(fitting, byBitrate), cfg.Rendition == "" || cfg.Rendition == RenditionBest
	}
	return group[0], cfg.Rendition == ""
}

// isRendition reports whether a track has that name or height, as in "720p".
func isRendition(t catalog.TrackEntry, wanted string) bool {
	return wanted != "" && (t.Name == wanted || t.Height > 0 && fmt.Sprintf("%dp", t.Height) == wanted)
}
