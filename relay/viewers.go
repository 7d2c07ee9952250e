package relay

import (
	"sluice/moqt"
	"sluice/relay/internal/names"
)

// maxViewedTracks bounds the tracks of a namespace in which viewers are counted. A catalog has no more of them.
const maxViewedTracks = 256

// Viewers returns how many sessions watch the broadcast in a namespace: the largest number of subscribers that one of
// its tracks has. A player subscribes to one of several renditions, but to the only audio track, or to the catalog. The
// authority and path are those of the URL by which the asker would connect.
func (r *Relay) Viewers(ns moqt.Namespace, authority, path string) int {
	return r.directory.viewers(names.PlaceOf(r.cfg.Scope(authority, path), ns))
}

func (d *directory) viewers(at place) (most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := maxViewedTracks
	for h := range d.tracks.At(at) {
		h.mu.Lock()
		most = max(most, len(h.subscribers.all))
		h.mu.Unlock()
		if left--; left == 0 {
			break
		}
	}
	return most
}
