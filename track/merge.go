package track

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"sluice/moqt"
)

// stallTimeout is how long the active stream may pause while another one is ahead of it. It is longer than the pauses
// between the frames of slow video, and short enough for a player's buffer to cover it.
const stallTimeout = 500 * time.Millisecond

// waitingSize is what a waiting stream takes besides its bytes.
const waitingSize = int64(unsafe.Sizeof(input{}) + unsafe.Sizeof(Log{}))

// merge brings the streams of one subgroup together. All methods expect mu to be held, except checkStalled and
// dropAhead.
type merge struct {
	mu      sync.Mutex
	active  *input
	out     *Segment // that active writes to, or that was cut; nil if active has brought nothing new yet
	waiting []*input

	cut    time.Time // when out was
	listed bool      // in Cache.cuts

	objectTimeout, subgroupTimeout *uint64 // see Segment
}

// enter adds a stream. If the segment was cut, that goes on with it.
func (m *merge) enter(in *input) error {
	switch {
	case m.active == nil:
		m.active = in
		if m.out != nil && !m.out.resume() {
			m.resetOut(uint64(moqt.ResetCancelled))
		}
	case len(m.waiting) >= maxWaiting && !m.forgetBroken():
		return ErrTooManyStreams
	default:
		m.waiting = append(m.waiting, in)
		in.track.cache.mem.add(waitingSize)
	}
	return nil
}

// take takes a stream out of those that wait.
func (m *merge) take(i int) *input {
	in := m.waiting[i]
	m.waiting = slices.Delete(m.waiting, i, i+1)
	in.track.cache.mem.add(-waitingSize)
	return in
}

// forgetBroken makes room for a stream that goes on. It reports false if no waiting one has broken off.
func (m *merge) forgetBroken() bool {
	i := slices.IndexFunc(m.waiting, func(w *input) bool { return w.state == Cut })
	if i >= 0 {
		m.take(i).release()
	}
	return i >= 0
}

// remove removes a stream that does not become active.
func (m *merge) remove(in *input) {
	if i := slices.Index(m.waiting, in); i >= 0 {
		m.take(i)
	}
	in.release()
}

// activeEnded makes the first waiting stream active, now that in has ended, and deals with those that have ended
// meanwhile. If none is left, the segment ends as the last one did, or is cut.
func (m *merge) activeEnded(in *input, state State, code uint64) error {
	m.active = nil
	if state == Finished {
		m.finishOut()
	}
	if !in.verbatim {
		in.release()
	}
	for len(m.waiting) > 0 {
		next := m.take(0)
		if m.out != nil {
			m.out.Log.sever()
		}
		m.active = next
		err := next.drain(false)
		if err == nil && next.state == Open {
			return nil
		}
		m.active = nil
		if err != nil {
			m.resetOut(uint64(moqt.ResetMalformedTrack))
			next.fail(err)
			return err
		}
		if state = next.state; state == Finished {
			m.finishOut()
		}
		next.release()
	}
	switch {
	case state == Cut && m.isWhole(in.sub, &in.track.mu):
		m.finishOut()
	case state == Cut:
		m.cutOut(in.track.cache)
	default:
		m.resetOut(code)
	}
	return nil
}

// isWhole reports whether the segment has the last object of the subgroup, which another stream has told.
func (m *merge) isWhole(sub *subgroup, mu sync.Locker) bool {
	if m.out == nil {
		return false
	}
	mu.Lock()
	defer mu.Unlock()
	last, ok := m.out.Log.Last()
	return ok && sub.finished && last.ID == sub.last && m.out.Log.End() == last.End
}

// cutOut cuts the segment: the next stream of the subgroup goes on with it, if one comes in time.
func (m *merge) cutOut(c *Cache) {
	switch {
	case m.out == nil:
	case m.out.patience() <= 0:
		m.resetOut(uint64(moqt.ResetCancelled))
	default:
		m.out.Log.Cut()
		m.cut = c.now()
		if !m.listed {
			m.listed = true
			c.watchCut(m)
		}
	}
}

// giveUp resets the segment if it was cut so long ago that no stream will go on with it. It reports whether it still
// waits for one.
func (m *merge) giveUp(now time.Time) (waits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.active == nil && m.out != nil {
		if now.Sub(m.cut) < m.out.patience() {
			return true
		}
		m.resetOut(uint64(moqt.ResetCancelled))
	}
	m.listed = false
	return false
}

// finishOut ends the segment, now that a stream has brought all of the subgroup that was missing. If the segment ends
// within an object, the stream had only later ones.
func (m *merge) finishOut() {
	if m.out == nil {
		return
	}
	if last, ok := m.out.Log.Last(); ok && m.out.Log.End() < last.End {
		m.resetOut(uint64(moqt.ResetCancelled))
		return
	}
	m.out.Log.Finish()
	m.out = nil
}

func (m *merge) resetOut(code uint64) {
	if m.out != nil {
		m.out.Log.Reset(code)
		m.out = nil
	}
}

// checkStalled tells the owner of the active stream if it has stalled while another one is ahead of it.
func (m *merge) checkStalled(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.active == nil || now.Sub(m.active.received) < stallTimeout {
		return
	}
	// One that broke off may go no further than the active one will, which may have caught up with the others.
	ahead := func(w *input) bool { return w.state != Cut && w.drain(false) == nil && w.ahead > 0 }
	if slices.ContainsFunc(m.waiting, ahead) {
		m.active.cfg.Overtaken()
	}
}

// dropAhead refuses the waiting streams that are ahead of the active one.
func (m *merge) dropAhead() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.waiting) - 1; i >= 0; i-- {
		if m.waiting[i].ahead > 0 {
			m.take(i).fail(ErrTooFarAhead)
		}
	}
}
