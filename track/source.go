package track

import (
	"errors"
	"io"
	"math"

	"sluice/clock"
	"sluice/moqt"
)

// Errors of streams whose subgroup another stream brings.
var (
	// ErrTooFarAhead is returned for a stream that is far ahead of the active one of its subgroup, or ahead of it while
	// the cache has no room.
	ErrTooFarAhead = errors.New("another stream brings the subgroup more slowly")
	// ErrTooManyStreams is returned for one stream of a subgroup too many.
	ErrTooManyStreams = errors.New("too many streams bring the same subgroup")
)

// SourceConfig describes a subgroup stream of a publisher.
type SourceConfig struct {
	Header   moqt.SubgroupHeader
	Priority uint8 // Publisher Priority: the header's, or the track's default
	Start    int64 // QUIC stream offset of the first byte after the header
	// Timeouts is set if the first object of a subgroup may have delivery timeouts as properties (draft-19 §8).
	Timeouts bool
	// Cancel makes Read return, and must not block.
	Cancel func()
	// Overtaken is called several times a second while the stream pauses and another one of the subgroup is ahead of
	// it. It must not block. If it calls Cancel, the other stream goes on in place of this one. Default: Cancel.
	Overtaken func()
	// Received returns when the packet came that was received last on the stream's connection, or 0. Default: 0.
	Received func() clock.Time
	Owner    any // for Origin.Owner
}

// Source takes in one subgroup stream of a publisher. It reads and parses the stream on the goroutine that calls it,
// and gives the objects to the merge of the subgroup: see the package comment.
type Source struct {
	track  *Track
	parser *moqt.SubgroupParser
	in     *input
}

// Read does one Read of r, the stream, and takes in what it returned. The error is io.EOF after FIN; a
// *moqt.ProtocolError if the session must be closed; a *moqt.MalformedTrackError; moqt.ErrPropertiesTooLong,
// ErrHeaderTooLarge, ErrTooFarAhead or ErrTooManyStreams; or what r returned.
func (s *Source) Read(r io.Reader) error {
	p, err := s.in.log.Fill(r)
	if s.in.cfg.Received != nil {
		s.in.log.came.Store(int64(s.in.cfg.Received()))
	}
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

// parse indexes the objects in p, and passes them on as far as possible.
func (s *Source) parse(p []byte) error {
	s.in.unparsed = p
	for {
		o, n, err := s.parser.Next(s.in.unparsed)
		if err != nil {
			if perr := s.in.progress(); perr != nil {
				return perr
			}
			if err == moqt.ErrIncomplete {
				return nil
			}
			return err
		}
		s.in.unparsed = s.in.unparsed[n:]
		if err := s.add(o); err != nil {
			return err
		}
	}
}

// add adds an object whose header has come to the stream's log.
func (s *Source) add(o *moqt.SubgroupObject) error {
	if s.in.sub == nil {
		if err := s.join(o); err != nil {
			return err
		}
	}
	log := s.in.log
	s.in.parsed = o.End
	k := Object{
		ID: o.ObjectID, Start: o.Start, IDEnd: log.idEnd(o.Start), PayloadStart: o.PayloadStart, End: o.End,
		Status: o.Status, Received: s.track.cache.now(),
	}
	if len(o.Properties) > 0 {
		k.PropertiesStart, k.PropertiesLen = o.PropertiesStart, len(o.Properties)
	}
	return log.AddObject(k)
}

// join enters the merge of the stream's subgroup, whose id may be the first object's.
func (s *Source) join(o *moqt.SubgroupObject) error {
	header := &s.in.cfg.Header
	id := uint64(0)
	switch header.SubgroupIDMode {
	case moqt.SubgroupIDFirstObject:
		id = o.ObjectID
	case moqt.SubgroupIDPresent:
		id = header.SubgroupID
	}
	if err := s.enterGroup(s.in.arrival(Object{ID: o.ObjectID, Status: o.Status}, id, o.Properties)); err != nil {
		return err
	}
	m := &s.in.sub.merge
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.enter(s.in)
}

// enterGroup finds the group and subgroup of the first object, unless that breaks a rule.
func (s *Source) enterGroup(a arrival) error {
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	err := a.check(&t.index, t.index.group(a.at.Group))
	if t.closed {
		err = ErrClosed
	}
	if err != nil {
		return err
	}
	g := t.index.ensureGroup(a.at.Group)
	sub := g.ensureSubgroup(a.subgroup, s.in.cfg.Priority)
	g.sources++
	sub.sources++
	s.in.group, s.in.sub = g, sub
	return nil
}

// finish ends the stream with FIN.
func (s *Source) finish() error {
	if err := s.parser.Finish(); err != nil {
		return err
	}
	if s.in.sub == nil {
		return io.EOF
	}
	if err := s.in.end(Finished, 0); err != nil {
		return err
	}
	return io.EOF
}

// Cut ends the stream, unless it ended before: it has broken off, and another one may go on. The error is as in Close.
func (s *Source) Cut() error {
	if s.in.sub == nil {
		return s.Close(0)
	}
	return s.in.end(Cut, 0)
}

// Close ends the stream as a reset with that code does, unless it ended before. The error, if another stream was
// waiting to become active, is a *moqt.MalformedTrackError.
func (s *Source) Close(code uint64) error {
	if s.in.sub == nil {
		s.in.log.Reset(code)
		s.in.log.Discard(math.MaxInt64)
		return nil
	}
	return s.in.end(Reset, code)
}
