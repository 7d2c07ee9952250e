package track

import (
	"slices"
	"sync"
	"time"

	"sluice/moqt"
)

// stallTimeout is how long the active stream may pause while another one is ahead of it. It is longer than the pauses
// between the frames of slow video, and short enough for a player's buffer to cover it.
const stallTimeout = 500 * time.Millisecond

// merge brings the streams of one subgroup together. All methods expect mu to be held, except checkStalled.
type merge struct {
	mu      sync.Mutex
	active  *input
	out     *Segment // the segment that active writes to; nil if active has brought nothing new yet
	waiting []*input
}

// enter adds a stream.
func (m *merge) enter(in *input) {
	if m.active == nil {
		m.active = in
	} else {
		m.waiting = append(m.waiting, in)
	}
}

// remove removes a waiting stream.
func (m *merge) remove(in *input) {
	m.waiting = slices.DeleteFunc(m.waiting, func(w *input) bool { return w == in })
	in.release()
}

// activeEnded makes the first waiting stream active, now that in has ended. If none waits, the segment ends like in.
func (m *merge) activeEnded(in *input, state State, code uint64) error {
	m.active = nil
	if state == Finished {
		m.finishOut()
	}
	if !in.verbatim {
		in.release()
	}
	for len(m.waiting) > 0 {
		next := m.waiting[0]
		m.waiting = slices.Delete(m.waiting, 0, 1)
		if m.out != nil {
			m.out.Log.rewind()
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
		next.release()
		m.finishOut() // a stream that was reset does not wait
	}
	m.resetOut(code)
	return nil
}

func (m *merge) finishOut() {
	if m.out != nil {
		m.out.Log.Finish()
		m.out = nil
	}
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
	if slices.ContainsFunc(m.waiting, func(w *input) bool { return w.log.End() > w.done }) {
		m.active.cfg.Overtaken()
	}
}
