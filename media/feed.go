package media

import (
	"slices"
	"sync"
	"sync/atomic"

	"sluice/clock"
	"sluice/track"
)

// feed is the streams of a shard that follow one open log. When the log grows, the shard is woken once, not for each
// stream.
type feed struct {
	shard  *shard
	log    *track.Log
	reader *track.Reader
	woken  atomic.Bool
	ended  bool // the goroutine's own, once Wake has been called

	arrivals arrivals

	mu      sync.Mutex
	streams []*Stream // appended to or replaced, but not changed in place, so that a copy of the slice stays valid
}

// Wake implements [track.Waker].
func (f *feed) Wake() {
	f.arrivals.note(f.log.End(), f.log.Received())
	if f.woken.Swap(true) {
		return
	}
	sh := f.shard
	sh.mu.Lock()
	sh.grown = append(sh.grown, f)
	sh.mu.Unlock()
	sh.notify()
}

// beginLocked reads the log from its end on; shard.mu is held. It reports false if the log has ended.
func (f *feed) beginLocked() bool {
	var err error
	if f.reader, err = f.log.NewReader(f.log.End(), f); err != nil {
		return false // everything is released: the log has ended, and the stream too
	}
	if state, _ := f.log.State(); state.Ended() { // after NewReader, as the feed is not told again
		f.ended = true // before Close: Wake may be called once more
		f.reader.Close()
		return false
	}
	f.arrivals.note(f.log.End(), f.log.Received())
	return true
}

// serve serves the followers, and ends the feed when the log has ended.
func (f *feed) serve(now clock.Time) {
	if f.ended {
		return // woken before it ended
	}
	f.woken.Store(false)
	state, _ := f.log.State()
	f.mu.Lock()
	streams := f.streams
	f.mu.Unlock()
	gone := 0
	for _, st := range streams {
		if st.gone.Load() {
			gone++
			continue
		}
		more, alarm := st.sender.serve(now, f.shard.batch, st)
		f.shard.after(st.sender, more, alarm)
	}
	f.reader.Release(f.log.End())
	if state.Ended() || gone == len(streams) {
		f.end(state.Ended())
	} else if gone > len(streams)/2 {
		f.compact()
	}
}

// compact removes streams that are done.
func (f *feed) compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams = slices.DeleteFunc(slices.Clone(f.streams), func(st *Stream) bool { return st.gone.Load() })
}

// end ends a feed whose log has ended, or that no stream follows any more.
func (f *feed) end(logEnded bool) {
	f.compact()
	sh := f.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !logEnded && len(f.streams) > 0 { // follow, which holds shard.mu, has just added one
		return
	}
	f.ended = true
	delete(sh.feeds, f.log)
	f.reader.Close()
}
