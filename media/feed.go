package media

import (
	"sync"
	"sync/atomic"

	"sluice/clock"
	"sluice/internal/udp"
	"sluice/track"
)

// feed has all streams of a shard that follow one open log. When the log grows the shard is woken once, not each stream.
type feed struct {
	shard  *shard
	log    *track.Log
	reader *track.Reader
	woken  atomic.Bool
	ended  bool // the goroutine's own

	mu      sync.Mutex
	streams []*Stream // appended to; replaced, never changed in place, so that a copy of the slice stays valid
}

// Wake implements [track.Waker].
func (f *feed) Wake() {
	if f.woken.Swap(true) {
		return
	}
	sh := f.shard
	sh.mu.Lock()
	sh.grown = append(sh.grown, f)
	sh.mu.Unlock()
	sh.notify()
}

// follow has a stream served when its log grows. If the log ends in the meantime there is no need to.
func (sh *shard) follow(st *Stream) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f := sh.feeds[st.log]
	if f == nil && !sh.closed {
		f = &feed{shard: sh, log: st.log}
		var err error
		if f.reader, err = st.log.NewReader(st.log.End(), f); err != nil {
			return // all is released: the log has ended, and the stream too
		}
		sh.feeds[st.log] = f
	}
	if f != nil {
		f.mu.Lock()
		f.streams = append(f.streams, st)
		f.mu.Unlock()
	}
}

// serve serves the followers, and is through when the log has ended.
func (f *feed) serve(now clock.Time) {
	if f.ended {
		return // Wake was on its way
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
		more, alarm := st.sender.serveStream(now, f.shard.batch, st)
		f.shard.after(st.sender, more, alarm)
	}
	f.reader.Release(f.log.End())
	if state != track.Open || gone == len(streams) {
		f.end(state != track.Open)
	} else if gone > len(streams)/2 {
		f.compact()
	}
}

// compact drops streams that are done.
func (f *feed) compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	live := make([]*Stream, 0, len(f.streams))
	for _, st := range f.streams {
		if !st.gone.Load() {
			live = append(live, st)
		}
	}
	f.streams = live
}

// end gives up a feed whose log has ended, or that nobody follows any more.
func (f *feed) end(logEnded bool) {
	f.compact()
	sh := f.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !logEnded && len(f.streams) > 0 { // a follower came just now; follow holds shard.mu
		return
	}
	f.ended = true
	delete(sh.feeds, f.log)
	f.reader.Close()
}

// serveStream serves a sender because a stream's log has grown or ended.
func (s *Sender) serveStream(now clock.Time, b *udp.Batch, st *Stream) (more bool, alarm clock.Time) {
	s.mu.Lock()
	defer s.unlockAndTell()
	s.update(st)
	return s.serveLocked(now, b)
}
