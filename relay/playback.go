package relay

import (
	"reflect"
	"time"

	"sluice/internal/rendition"
	"sluice/moqt"
)

// Limits of what a player may report. What is more counts as so much.
const (
	maxBuffered = 10 * time.Second
	maxDisplay  = 1 << 16 // pixels in a row, or rows
)

// isReport reports whether an update has nothing but what a player tells about itself. It changes no subscription.
func isReport(p moqt.Parameters) bool {
	if p.Playback == nil {
		return false
	}
	p.Playback, p.AuthorizationTokens = nil, nil
	return reflect.ValueOf(p).IsZero()
}

// report takes what a player has told in an update of the subscription: it counts for all renditions of a set, and else
// for this track.
func (d *downstream) report(p *moqt.Playback) {
	d.peer.relay.metrics.reports.Inc()
	v := playbackOf(p)
	if m := d.pub.Parameters().Rendition; m != nil {
		d.peer.sets.report(m.Set, v)
		return
	}
	d.setPatience(v.Patience())
}

func (r *renditionSets) report(set uint64, p rendition.Playback) {
	r.mu.Lock()
	s := r.of[set]
	r.mu.Unlock()
	if s != nil {
		s.report(time.Now(), p)
	}
}

// playbackOf returns what a player has told, within the limits.
func playbackOf(p *moqt.Playback) rendition.Playback {
	v := rendition.Playback{Dropped: p.Dropped, Pixels: pixels(p.Width, p.Height)}
	if p.Buffered > 0 {
		v.Buffered = new(min(moqt.Milliseconds(p.Buffered-1), maxBuffered))
	}
	return v
}

func pixels(width, height uint64) uint64 { return min(width, maxDisplay) * min(height, maxDisplay) }

// report lets the choice of a rendition, and the drop policy, know what the player has told.
func (s *renditionSet) report(now time.Time, p rendition.Playback) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.playback = &p
	if s.chooser != nil {
		s.chooser.Report(now, p)
	}
	for _, m := range s.members {
		m.setPatience(p.Patience())
	}
}

// setPatience sets for how long the data of the subscription may wait, whatever the drop policy says.
func (d *downstream) setPatience(patience time.Duration) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	d.delivery.patience = patience
	if d.delivery.media == nil || d.over {
		return
	}
	for _, m := range d.delivery.allMedia() {
		m.SetPatience(patience)
	}
}
