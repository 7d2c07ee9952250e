package rendition

import "time"

// Playback is a player's report about itself. The zero value says nothing, and changes nothing.
type Playback struct {
	Buffered *time.Duration // how much media waits to be shown; nil: not known
	Dropped  uint64         // frames that were not shown, as they were decoded too late; counted since it began
	Pixels   uint64         // of its display; 0: not known
}

// Patience is how long media may wait on its way to a player with this buffer.
func (p *Playback) Patience() time.Duration {
	if p.Buffered == nil {
		return 0
	}
	return min(*p.Buffered, mostBuffer) / 2
}

const (
	emptyBuffer = 20 * time.Millisecond
	mostBuffer  = 10 * time.Second // more than that does not count
	dropWindow  = 2 * time.Second
	dropLimit   = 10 // frames in dropWindow
)

// player has the last reports of a player.
type player struct {
	Playback
	begins time.Time // when it shows the current rendition: earlier drops are another one's
	window time.Time // when the present dropWindow began; zero: with the next report
	before uint64    // Dropped then
	slow   bool      // it has dropped too many frames of the current rendition
}

// report takes a report. Reports may be farther apart than dropWindow: then as many frames more may be dropped.
func (p *player) report(now time.Time, r Playback) {
	p.Playback = r
	if now.Before(p.begins) {
		return
	}
	if p.window.IsZero() || r.Dropped < p.before {
		p.window, p.before = now, r.Dropped
		return
	}
	windows := max(float64(now.Sub(p.window))/float64(dropWindow), 1)
	slow := float64(r.Dropped-p.before) >= dropLimit*windows
	if p.slow = p.slow || slow; slow || windows > 1 {
		p.window, p.before = now, r.Dropped
	}
}

// began tells that media of another rendition has come, which is shown after the buffered frames.
func (p *player) began(now time.Time) {
	p.begins, p.window, p.slow = now.Add(2*p.Patience()), time.Time{}, false
}

// isEmpty reports whether the player has nothing to show soon.
func (p *player) isEmpty() bool { return p.Buffered != nil && *p.Buffered <= emptyBuffer }

// late returns from which delay on media is late for the player. With a full buffer it may wait, with an empty one it
// may not.
func (p *player) late(late time.Duration) time.Duration {
	if p.isEmpty() {
		return late / 2
	}
	return max(late, p.Patience())
}

// shows reports whether the player's display has at least that many pixels, if that is known.
func (p *player) shows(pixels uint64) bool { return p.Pixels == 0 || pixels <= p.Pixels }
