package sub

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/player/cmaf"
)

// maxBuffered is how many bytes may wait to be written. Beyond that, streams are not read, and QUIC's flow control
// stops the relay.
const maxBuffered = 64 << 20

// player merges tracks into one stream of chunks, in the order of their decode times.
type player struct {
	out  io.Writer
	init *cmaf.Init    // of the tracks of chunks; nil: there are none
	hold time.Duration // how long to wait for a missing object
	stop limits
	// startTimeout is how long a track without a frame with which decoding can start keeps the others waiting.
	startTimeout time.Duration

	memory Memory
	log    *slog.Logger

	mu       sync.Mutex
	lanes    []*lane
	headed   bool // the init segment has been written
	err      error
	begun    bool
	first    time.Duration // media time of the first chunk
	joined   time.Duration // media time at which each track has begun that was there at the start
	last     time.Duration // media time at which the latest one ends
	released uint64
	limited  bool // a limit was reached
	full     bool
	writing  int           // bytes of the batch that is being written
	counted  int           // bytes taken of memory
	changed  chan struct{} // closed at the next arrival
	room     chan struct{} // closed when there is room again
}

// limits end playback early. Zero values are no limits.
type limits struct {
	duration time.Duration // of media of all tracks
	objects  uint64
}

// minStartTimeout is longer than groups of usual encoders. A camera may be off for good.
const minStartTimeout = 10 * time.Second

func newPlayer(out io.Writer, in *cmaf.Init, hold time.Duration, stop limits) *player {
	return &player{
		out: out, init: in, hold: hold, stop: stop, headed: true, memory: unbounded{},
		startTimeout: minStartTimeout, log: slog.New(slog.DiscardHandler),
		changed: make(chan struct{}), room: make(chan struct{}),
	}
}

// sourcesOf returns the tracks that a lane may take objects from.
func (p *player) sourcesOf(l *lane) []*source {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.sourcesLocked()
}

// switchLocked goes on with another rendition, at the start of a group. An init segment comes first.
func (p *player) switchLocked(l *lane, to *source) {
	l.source, l.switched, p.headed = to, true, false
	l.switches++
	if to.frames != nil {
		to.frames.mux.InBand()
	}
}

func (p *player) add(l *lane) *lane {
	l.seq, l.sum = newSequencer(), sha256.New()
	l.seq.apart = l.entry.Role == string(cmaf.Video)
	l.played, l.leaveOut = context.WithCancel(context.Background())
	l.listed, l.withdraw = context.WithCancel(l.played)
	p.lanes = append(p.lanes, l)
	return l
}

// update calls f with the lock held, and then waits while too much is buffered.
func (p *player) update(ctx context.Context, l *lane, f func(*sequencer)) error {
	full, room := p.apply(l, f)
	if !full {
		return nil
	}
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *player) apply(l *lane, f func(*sequencer)) (full bool, room <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(l.seq)
	p.countLocked()
	close(p.changed)
	p.changed = make(chan struct{})
	p.full = p.full || p.bufferedLocked() > maxBuffered // collect resets it
	return p.full, p.room
}

// offer is update for objects that may be dropped: it does nothing while too much is buffered.
func (p *player) offer(l *lane, f func(*sequencer)) {
	p.mu.Lock()
	full := p.full
	p.mu.Unlock()
	if !full {
		p.apply(l, f)
	}
}

func (p *player) snapshot() Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Progress{Media: p.last - p.first}
	for _, l := range p.lanes {
		s.Objects += l.seq.counted.Objects
		s.Bytes += l.seq.counted.Bytes
	}
	return s
}

func (p *player) bufferedLocked() (n int) {
	for _, l := range p.lanes {
		n += l.seq.bytes
	}
	return n
}

// run writes until all tracks have ended, a limit is reached, or the context is done.
func (p *player) run(ctx context.Context) error {
	for {
		batch, next, done := p.collect(time.Now())
		for _, b := range batch {
			if _, err := p.out.Write(b); err != nil {
				return &OutputError{err}
			}
		}
		if err := p.written(); done {
			return err
		}
		if err := p.sleep(ctx, next); err != nil {
			return err
		}
	}
}

// sleep waits for an arrival or for a time.
func (p *player) sleep(ctx context.Context, until wake) error {
	timer := time.NewTimer(time.Until(until.at))
	defer timer.Stop()
	if until.at.IsZero() {
		timer.Stop()
	}
	select {
	case <-until.changed:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// wake is when collect has to be called again.
type wake struct {
	changed <-chan struct{}
	at      time.Time // zero: not by time
}

// collect takes the chunks that can be written now.
func (p *player) collect(now time.Time) (batch [][]byte, next wake, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next.changed = p.changed
	if p.err != nil {
		return nil, next, true
	}
	for len(batch) < 256 {
		h, at, open := p.pickLocked(now)
		if h == nil && at.IsZero() && p.full && p.goOnLocked() {
			continue
		}
		if h == nil {
			next.at = at
			done = !open
			break
		}
		done = p.releaseLocked(h)
		out, err := p.outputLocked(h)
		if err != nil {
			p.err = &MediaError{err}
			return batch, next, true
		}
		if batch = append(batch, out); done {
			break
		}
		next.at = now // there may be more
	}
	if p.full && p.bufferedLocked() <= maxBuffered/2 {
		p.full = false
		close(p.room)
		p.room = make(chan struct{})
	}
	return batch, next, done
}

// goOnLocked gives up the objects that a fetch would bring, as memory is full, and plays the live ones. It reports
// whether something can be written now.
func (p *player) goOnLocked() (can bool) {
	for _, l := range p.lanes {
		can = l.seq.goOn() || can
	}
	return can
}

// candidate is the next chunk of a track.
type candidate struct {
	lane  *lane
	item  item
	chunk cmaf.Chunk
	time  time.Duration
}

// pickLocked returns the chunk to write now, or when to look again. open is false if all tracks have ended.
func (p *player) pickLocked(now time.Time) (best *candidate, at time.Time, open bool) {
	var idle []*lane
	for _, l := range p.lanes {
		c, st, again := p.headLocked(l, now)
		switch st {
		case ready:
			if !p.begun {
				p.joined = max(p.joined, c.time)
			}
			if best == nil || c.time < best.time {
				best = c
			}
		case over:
			continue
		default:
			at = earliest(at, again)
			idle = append(idle, l)
		}
		open = true
	}
	if best == nil {
		return nil, at, open
	}
	if slices.ContainsFunc(idle, (*lane).waitsLocked) {
		if until := best.item.arrived.Add(p.startTimeout); now.Before(until) {
			return nil, earliest(at, until), open
		}
		idle = p.leaveOutLocked(idle)
	}
	due := best.item.arrived.Add(p.hold)
	for _, l := range idle {
		// A track without a gap cannot have an earlier chunk than the expected one.
		if mayPrecede := l.expected <= best.time; mayPrecede && now.Before(due) {
			return nil, earliest(at, due), open
		}
	}
	return best, at, open
}

// leaveOutLocked ends the lanes that have no init segment yet, with their subscriptions, and returns the others. Few
// players take another init segment with more tracks later.
func (p *player) leaveOutLocked(lanes []*lane) []*lane {
	return slices.DeleteFunc(lanes, func(l *lane) bool {
		if !l.waitsLocked() {
			return false
		}
		p.log.Warn("playing without a track that has sent no frame with which decoding can start", "track", l.name,
			"within", p.startTimeout)
		l.seq.leave()
		l.leaveOut()
		return true
	})
}

// startDelay is how long to wait for earlier groups while the first group is not known: streams may overtake each
// other.
const startDelay = 200 * time.Millisecond

// headLocked returns the next chunk of a track, or when to look again if that is known. It skips objects that have been
// missing for too long, and frames that cannot be decoded.
func (p *player) headLocked(l *lane, now time.Time) (c *candidate, st state, again time.Time) {
	for {
		i, st, again := p.nextLocked(l, now)
		if st == ready && i.source != nil && i.source != l.source {
			p.switchLocked(l, i.source)
		}
		switch {
		case st != ready:
			return nil, st, again
		case l.frames == nil || l.frames.prepare(i):
			return p.candidateLocked(l, i), ready, time.Time{}
		}
		l.seq.drop(i)
	}
}

func (p *player) nextLocked(l *lane, now time.Time) (i item, st state, again time.Time) {
	if !l.seq.begun && !l.seq.ended && l.seq.bytes > 0 {
		if l.opened.IsZero() {
			l.opened = now
		}
		if again = l.opened.Add(startDelay); now.Before(again) {
			return item{}, waiting, again
		}
	}
	i, st = l.seq.head()
	if st == blocked {
		if again = i.arrived.Add(p.hold); now.Before(again) && !l.seq.ended {
			return item{}, blocked, again
		}
		l.seq.skip()
		i, st = l.seq.head()
	}
	return i, st, time.Time{}
}

func (p *player) candidateLocked(l *lane, i item) *candidate {
	c := &candidate{lane: l, item: i, time: l.expected}
	if f := l.frames; f != nil {
		c.time = f.mux.Time(f.sample)
		return c
	}
	if l.track != nil {
		if chunk, err := l.init.ParseChunk(i.payload); err == nil && chunk.Track == l.track.ID {
			c.chunk, c.time = chunk, l.track.Time(chunk.DecodeTime)
		}
	}
	return c
}

// releaseLocked takes a chunk out of its track. It reports whether a limit was reached.
func (p *player) releaseLocked(c *candidate) (done bool) {
	l := c.lane
	l.seq.pop(c.item)
	p.writing += c.item.size()
	l.sum.Write(c.item.payload)
	l.expected = c.time
	if f := l.frames; f != nil {
		l.expected = f.mux.End(f.sample)
	} else if c.chunk.Track != 0 {
		l.expected = l.track.Time(c.chunk.DecodeTime + c.chunk.Duration)
	}
	if l.check != nil {
		l.check.add(c.item.payload)
	}
	if !p.begun {
		p.begun, p.first = true, c.time
	}
	p.last = max(p.last, l.expected)
	p.released++
	p.limited = p.stop.objects > 0 && p.released >= p.stop.objects ||
		p.stop.duration > 0 && c.time-p.joined >= p.stop.duration
	return p.limited
}

// headerLocked returns the init segment of all lanes. Lanes that have ended without a frame have none.
func (p *player) headerLocked() ([]byte, error) {
	var inits []*cmaf.Init
	original := !slices.ContainsFunc(p.lanes, func(l *lane) bool { return l.switched })
	if p.init != nil && original {
		inits = append(inits, p.init)
	}
	for _, l := range p.lanes {
		if l.frames == nil && original || l.waitsLocked() {
			continue
		}
		in, err := l.initAs(l.id)
		if err != nil {
			return nil, err
		}
		inits = append(inits, in)
	}
	if len(inits) == 0 {
		return nil, errors.New("no track has a frame that can be decoded")
	}
	in, err := cmaf.Join(inits...)
	if err != nil {
		return nil, err
	}
	return in.Data, nil
}

// outputLocked returns the output for a released candidate: after the init segment, if that has to wait for
// frames, its chunk. Times start with the first frame if no track has times of its own.
func (p *player) outputLocked(c *candidate) (out []byte, err error) {
	if !p.headed {
		p.headed = true
		if out, err = p.headerLocked(); err != nil {
			return nil, err
		}
	}
	f := c.lane.frames
	switch {
	case f == nil && c.lane.switched:
		chunk, err := c.lane.rewrite(c.item.payload)
		return append(out, chunk...), err
	case f == nil && out == nil:
		return c.item.payload, nil
	case f == nil:
		return append(out, c.item.payload...), nil
	}
	start := time.Duration(0)
	if p.init == nil {
		start = p.first
	}
	chunk, err := f.mux.Chunk(f.sample, start)
	f.prepared = false
	return append(out, chunk...), err
}

// countLocked takes memory for media that is buffered, or being written. Playback ends if there is too little memory.
func (p *player) countLocked() {
	n := p.bufferedLocked() + p.writing
	switch more := n - p.counted; {
	case more < 0:
		p.memory.Give(-more)
	case more > 0 && !p.memory.Take(more):
		p.failLocked(errMemory)
		return
	}
	p.counted = n
}

// failLocked ends the player with an error.
func (p *player) failLocked(err error) {
	if p.err == nil {
		p.err = &MediaError{err}
	}
}

// written is called when a batch has been written. It returns the error that ends the player, if there is one.
func (p *player) written() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing = 0
	p.countLocked()
	return p.err
}

// earliest returns the earlier of two times, or the other one if one is zero.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// OutputError is the error of an output that cannot be written.
type OutputError struct{ Err error }

func (e *OutputError) Error() string { return fmt.Sprintf("output: %v", e.Err) }

// Unwrap returns the cause.
func (e *OutputError) Unwrap() error { return e.Err }
