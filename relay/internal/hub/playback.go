package hub

import (
	"reflect"
	"time"

	"sluice/internal/rendition"
	"sluice/moqt"
)

// Limits of what a player may report. Larger values count as the limit.
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

// playbackOf returns what a player has told, within the limits.
func playbackOf(p *moqt.Playback) rendition.Playback {
	v := rendition.Playback{Dropped: p.Dropped, Pixels: pixels(p.Width, p.Height)}
	if p.Buffered > 0 {
		v.Buffered = new(min(moqt.Milliseconds(p.Buffered-1), maxBuffered))
	}
	return v
}

func pixels(width, height uint64) uint64 { return min(width, maxDisplay) * min(height, maxDisplay) }
