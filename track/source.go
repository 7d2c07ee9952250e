package track

import (
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
)

// stallTimeout is how long the stream that a subgroup is taken from may pause while another one is ahead of it. It is longer than the pauses
// between the frames of slow video, and short enough not to be noticed by a player's buffer.
const stallTimeout = 500 * time.Millisecond

// maxAhead is how many bytes of a stream wait for the one that its subgroup is taken from. It is a large object of video, or seconds of it.
const maxAhead = 32 << 20

// ErrTooFarAhead is returned for a stream that brings much more than the one that its subgroup is taken from.
var ErrTooFarAhead = errors.New("another stream brings the subgroup more slowly")

// SourceConfig describes an upstream subgroup stream.
type SourceConfig struct {
	Header   moqt.SubgroupHeader
	Priority uint8  // Publisher Priority: the header's, or the track's default
	Start    int64  // QUIC stream offset of the first byte after the header
	Cancel   func() // makes Read return; called if another stream delivers the subgroup better. It must not block.
	Owner    any    // for Segment.Owner
}

// Source takes in one upstream subgroup stream. Where several streams bring the same subgroup, from several publishers or after a reset, one
// of them is live and the others are compared with it and take over when it fails: subscribers see one sequence of objects.
//
// A live stream that brings new objects is verbatim: its bytes are the segment's. Otherwise its objects are copied to where they belong.
type Source struct {
	track  *Track
	cfg    SourceConfig
	parser *moqt.SubgroupParser
	in     *Log   // this stream's bytes
	rest   []byte // what parse has not consumed; may lie in the memory of in
	parsed int64  // End of the latest object
	group  *group // nil before the first object
	sub    *subgroup

	// Guarded by sub.merge.mu once sub is set.
	verbatim bool
	done     int64     // what lies before it in the log was forwarded, compared or skipped
	previous uint64    // id of the object before done
	started  bool      // there is one
	moved    time.Time // when data came last
	state    State
	failed   error
}

// merge brings the streams of one subgroup together.
type merge struct {
	mu      sync.Mutex
	live    *Source
	out     *Segment // what live writes to; nil if it brought nothing new yet
	waiting []*Source
}

// NewSource returns a Source for a stream of which the SUBGROUP_HEADER has been read. It must be closed.
func (t *Track) NewSource(cfg SourceConfig) *Source {
	return &Source{
		track:  t,
		cfg:    cfg,
		parser: moqt.NewSubgroupParser(cfg.Header, cfg.Start),
		in:     NewLog(cfg.Start, &t.cache.mem),
		parsed: cfg.Start,
		done:   cfg.Start,
	}
}

// Read does one Read of r, the stream, and takes in what it returned. The error is io.EOF after FIN; a *moqt.ProtocolError if the session
// must be closed; a *moqt.MalformedTrackError; moqt.ErrPropertiesTooLong, ErrHeaderTooLarge or ErrTooFarAhead; or what r returned.
func (s *Source) Read(r io.Reader) error {
	p, err := s.in.Fill(r)
	if perr := s.parse(p); perr != nil {
		return perr
	}
	if len(p) > 0 {
		s.track.cache.enforce()
	}
	if err == io.EOF {
		return s.finish()
	}
	return err
}

func (s *Source) parse(p []byte) error {
	s.rest = p
	for {
		o, n, err := s.parser.Next(s.rest)
		if err != nil {
			if perr := s.progress(); perr != nil {
				return perr
			}
			if err == moqt.ErrIncomplete {
				return nil
			}
			return err
		}
		s.rest = s.rest[n:]
		if err := s.index(o); err != nil {
			return err
		}
	}
}

// index adds an object whose header has come to the stream's log.
func (s *Source) index(o *moqt.SubgroupObject) error {
	if s.group == nil {
		if err := s.join(o); err != nil {
			return err
		}
	}
	s.parsed = o.End
	k := Object{ID: o.ObjectID, Start: o.Start, IDEnd: s.in.idEnd(o.Start), PayloadStart: o.PayloadStart, End: o.End, Status: o.Status, Received: s.track.cache.now()}
	if len(o.Properties) > 0 {
		k.PropertiesStart, k.PropertiesLen = o.PropertiesStart, len(o.Properties)
	}
	return s.in.AddObject(k)
}

// join finds the subgroup, which may be named by the first object.
func (s *Source) join(o *moqt.SubgroupObject) error {
	id := uint64(0)
	switch s.cfg.Header.SubgroupIDMode {
	case moqt.SubgroupIDFirstObject:
		id = o.ObjectID
	case moqt.SubgroupIDPresent:
		id = s.cfg.Header.SubgroupID
	}
	t := s.track
	t.mu.Lock()
	a := s.arrival(Object{ID: o.ObjectID, Status: o.Status}, id, o.Properties)
	err := t.check(t.group(a.at.Group), &a)
	if t.closed {
		err = ErrClosed
	}
	if err != nil {
		t.mu.Unlock()
		return err
	}
	s.group = t.ensureGroup(a.at.Group)
	s.group.sources++
	s.sub = s.group.ensureSubgroup(id, s.cfg.Priority)
	t.mu.Unlock()

	m := &s.sub.merge
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live == nil {
		m.live = s
	} else {
		m.waiting = append(m.waiting, s)
	}
	return nil
}

func (s *Source) arrival(o Object, subgroup uint64, p moqt.Properties) arrival {
	a := arrival{
		at:       moqt.Location{Group: s.cfg.Header.GroupID, Object: o.ID},
		subgroup: subgroup,
		priority: s.cfg.Priority,
		status:   o.Status,
	}
	a.setProperties(p)
	return a
}

func (s *Source) progress() error {
	if s.sub == nil {
		return nil
	}
	m := &s.sub.merge
	m.mu.Lock()
	defer m.mu.Unlock()
	s.moved = s.track.cache.now()
	if s.failed != nil {
		return s.failed
	}
	if err := s.drain(true); err != nil {
		return err
	}
	if s.in.End()-s.done > maxAhead {
		return ErrTooFarAhead
	}
	return nil
}

// drain deals with the objects of the log as far as it can now. own is false if another stream's goroutine calls it: then only what
// Readers of the log may do is possible.
func (s *Source) drain(own bool) error {
	for {
		o, ok := s.in.Covering(s.done)
		if !ok {
			break
		}
		more, err := s.step(o, own)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if own {
		s.commit()
	}
	if !s.verbatim {
		s.in.Discard(min(s.done, s.in.End()))
	}
	return nil
}

// commit makes visible what was dealt with. Of a stream that waits all is visible, for another stream's goroutine to take over.
func (s *Source) commit() {
	end := s.done
	if s.sub.merge.live != s {
		end = s.parsed
	}
	if end = min(end, s.in.Written()); end > s.in.End() {
		s.in.Commit(end)
	}
}

// step deals with the object that s.done lies in. It reports whether the object is done with.
func (s *Source) step(o Object, own bool) (bool, error) {
	m := &s.sub.merge
	if !own && s.in.End() < o.PayloadStart {
		return false, nil
	}
	if s.done > o.Start {
		return s.copyPayload(o, own), nil
	}
	if m.live != s {
		return s.compareHeld(o, own)
	}
	if m.out != nil && !s.verbatim && m.out.resumes(o) {
		return s.resume(o, own)
	}
	v, err := s.admit(o)
	switch {
	case err != nil:
		return false, err
	case v == fresh:
		return s.forward(o, own)
	case s.verbatim:
		s.split(o)
		return true, nil
	case v == duplicate:
		return s.compareHeld(o, own)
	}
	s.skip(o)
	return true, nil
}

func (s *Source) admit(o Object) (verdict, error) {
	a := s.arrival(o, s.sub.id, s.in.properties(o))
	s.track.mu.Lock()
	defer s.track.mu.Unlock()
	_, v, err := s.track.admit(&a)
	return v, err
}

func (s *Source) skip(o Object) {
	s.done = o.End
	s.previous, s.started = o.ID, true
}

// forward gives a new object to the subscribers.
func (s *Source) forward(o Object, own bool) (bool, error) {
	m := &s.sub.merge
	if s.verbatim {
		s.skip(o)
		return true, nil
	}
	if m.out != nil && !m.out.accepts(o, s) {
		m.resetOut(uint64(moqt.ResetCancelled))
	}
	if m.out == nil && own && s.in.End() <= o.Start {
		s.verbatim = true
		s.open(o, s.in)
		s.in.Discard(o.Start)
		s.skip(o)
		return true, nil
	}
	if m.out == nil {
		s.open(o, NewLog(o.Start, &s.track.cache.mem))
	}
	m.out.appendHeader(o, s.in.properties(o))
	s.done = o.PayloadStart
	return s.copyPayload(o, own), nil
}

// open makes log the segment that begins with o.
func (s *Source) open(o Object, log *Log) {
	seg := &Segment{
		Log:           log,
		Group:         s.group.id,
		Subgroup:      s.sub.id,
		Priority:      s.cfg.Priority,
		First:         o.ID,
		Start:         o.Start,
		FirstObject:   s.cfg.Header.FirstObject && !s.started,
		EndOfGroup:    s.cfg.Header.EndOfGroup,
		HasProperties: s.cfg.Header.HasProperties,
	}
	if s.verbatim {
		seg.Owner = s.cfg.Owner
	}
	t := s.track
	t.mu.Lock()
	s.group.addSegment(seg)
	t.mu.Unlock()
	s.sub.merge.out = seg
	t.opened(seg)
	t.retain(log)
}

// split ends the verbatim segment before o, which must not be forwarded, and goes on with a log of its own.
func (s *Source) split(o Object) {
	m := &s.sub.merge
	s.rest = slices.Clone(s.rest)
	old := s.in
	old.Commit(o.Start)
	s.in = old.moveTail(o.Start)
	for next, ok := old.Covering(o.Start); ok; next, ok = old.Covering(next.End) {
		s.in.AddObject(next)
	}
	old.Reset(uint64(moqt.ResetCancelled))
	m.out, s.verbatim = nil, false
}

// finish ends the stream with FIN.
func (s *Source) finish() error {
	if err := s.parser.Finish(); err != nil {
		return err
	}
	if s.sub == nil {
		return io.EOF
	}
	if err := s.end(Finished, 0); err != nil {
		return err
	}
	return io.EOF
}

// Close ends the stream as a reset with that code does, unless it ended before. The error, if another stream was already waiting to take
// over, is a *moqt.MalformedTrackError.
func (s *Source) Close(code uint64) error {
	if s.sub == nil {
		s.in.Reset(code)
		s.in.Discard(math.MaxInt64)
		return nil
	}
	return s.end(Reset, code)
}

func (s *Source) end(state State, code uint64) error {
	m := &s.sub.merge
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.state != Open {
		return nil
	}
	s.state = state
	s.track.mu.Lock()
	s.group.sources--
	var err error
	if state == Finished {
		last, _ := s.in.Last()
		err = s.group.finishSubgroup(s.sub, last, s.cfg.Header.EndOfGroup)
	}
	s.track.mu.Unlock()
	if m.live == s {
		return firstError(err, m.succeed(s, state, code))
	}
	if state == Reset || s.failed != nil || s.in.End() == s.done {
		m.remove(s)
	}
	return err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// succeed ends the live stream s and makes the first one that waits live.
func (m *merge) succeed(s *Source, state State, code uint64) error {
	m.live = nil
	if state == Finished {
		m.finishOut()
	}
	if !s.verbatim {
		s.release()
	}
	for len(m.waiting) > 0 {
		next := m.waiting[0]
		m.waiting = slices.Delete(m.waiting, 0, 1)
		if m.out != nil {
			m.out.Log.Rewind()
		}
		m.live = next
		err := next.drain(false)
		if err == nil && next.state == Open {
			return nil
		}
		m.live = nil
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

// fail is called on another stream's goroutine: what s brought is wrong.
func (s *Source) fail(err error) {
	s.failed = err
	if s.state == Open {
		s.cfg.Cancel()
	} else {
		s.release()
	}
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

func (m *merge) remove(s *Source) {
	m.waiting = slices.DeleteFunc(m.waiting, func(w *Source) bool { return w == s })
	s.release()
}

// release frees a log that is no segment's.
func (s *Source) release() {
	s.in.Reset(0)
	s.in.Discard(math.MaxInt64)
}

// relieve cancels the live stream if it has stalled while another one is ahead of it.
func (m *merge) relieve(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live == nil || now.Sub(m.live.moved) < stallTimeout {
		return
	}
	if slices.ContainsFunc(m.waiting, func(w *Source) bool { return w.in.End() > w.done }) {
		m.live.cfg.Cancel()
	}
}
