package sub

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/catalog"
	"sluice/internal/rendition"
	"sluice/moqt"
)

// A catalog may come while a rendition is being changed to. Whether that succeeds or fails, the player then goes on
// with the rendition that it has, and does not ask for another one again and again.
func TestCatalogDuringChange(t *testing.T) {
	newRendition := func(bitrate, width int) *source {
		return &source{choice: choice{entry: catalog.TrackEntry{Bitrate: bitrate, Width: width, Height: 1}}}
	}
	for name, tt := range map[string]struct {
		withdrawn bool // the later catalog has not what is being changed to
		change    func(t *testing.T, r, next *laneReceiver)
		succeeds  bool
	}{
		"refused":     {change: func(_ *testing.T, r, next *laneReceiver) { r.refused(next.source, false) }},
		"not aligned": {change: func(_ *testing.T, r, next *laneReceiver) { r.refused(next.source, true) }},
		"accepted": {succeeds: true, change: func(t *testing.T, r, next *laneReceiver) {
			require.True(t, next.follow(r, &moqt.Location{}))
		}},
		"withdrawn and refused": {withdrawn: true, change: func(_ *testing.T, r, next *laneReceiver) {
			r.refused(next.source, false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			high, low, lower := newRendition(3, 640), newRendition(2, 320), newRendition(1, 160)
			l := &lane{source: high, subscribed: high, seq: newSequencer(), ladder: &ladder{}}
			p := &playback{player: &player{lanes: []*lane{l}}}
			l.ladder.set([]*source{high, low}, high)
			r := &laneReceiver{e: &playing{p: p}, lane: l, source: high}
			now := time.Now()
			l.ladder.chooser.Began(now, 1)
			l.ladder.chooser.Report(now, rendition.Playback{Pixels: 320})
			require.Same(t, low, r.choose(now.Add(2*time.Second), 0), "for the display")

			later := []*source{high, low, lower}
			if tt.withdrawn {
				later = []*source{high, lower}
			}
			l.setRenditionsLocked(later, rendition.Playback{})
			next := &laneReceiver{e: r.e, lane: l, source: low}
			tt.change(t, r, next)
			if tt.succeeds {
				r = next
			}
			for i := range 10 {
				at := now.Add(time.Duration(i) * rendition.Interval)
				require.Same(t, r.source, r.choose(at, 0))
			}
		})
	}
}
