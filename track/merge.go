package track

import (
	"bytes"

	"sluice/moqt"
)

// accepts reports whether o, which followed the objects dealt with on its stream, is the next object of the segment's subgroup (draft §11.4.3)
// and can be encoded as the segment's objects are.
func (s *Segment) accepts(o Object, from *Source) bool {
	last, _ := s.Log.Last()
	next := o.ID == last.ID+1 || from.started && from.previous == last.ID
	complete := s.Log.End() == last.End
	return next && complete && (s.HasProperties || o.PropertiesLen == 0)
}

// resumes reports whether o is the object that the segment's log ends in the middle of.
func (s *Segment) resumes(o Object) bool {
	last, _ := s.Log.Last()
	return last.ID == o.ID && s.Log.End() < last.End
}

// appendHeader writes the fields of o that precede its payload.
func (s *Segment) appendHeader(o Object, p moqt.Properties) {
	delta := o.ID
	if last, ok := s.Log.Last(); ok {
		delta -= last.ID + 1
	}
	k := Object{ID: o.ID, Start: s.Log.End(), Status: o.Status, Received: o.Received}
	b := moqt.AppendVarint(nil, delta)
	k.IDEnd = k.Start + int64(len(b))
	if s.HasProperties {
		b = moqt.AppendVarint(b, uint64(len(p)))
		if len(p) > 0 {
			k.PropertiesStart, k.PropertiesLen = k.Start+int64(len(b)), len(p)
		}
		b = append(b, p...)
	}
	b = moqt.AppendVarint(b, uint64(o.PayloadLen()))
	if o.PayloadLen() == 0 {
		b = moqt.AppendVarint(b, uint64(o.Status))
	}
	k.PayloadStart = k.Start + int64(len(b))
	k.End = k.PayloadStart + o.PayloadLen()
	s.Log.AddObject(k)
	s.Log.Append(b)
}

// copyPayload appends what has come of the payload of o to the segment. It reports whether that was the rest.
func (s *Source) copyPayload(o Object, own bool) bool {
	s.reveal(o, own)
	r, err := s.in.NewReader(s.done, nil)
	if err != nil {
		return false
	}
	defer r.Close()
	for end := min(o.End, s.in.End()); s.done < end; {
		v := r.View(s.done, int(end-s.done))
		s.sub.merge.out.Log.Append(v)
		s.done += int64(len(v))
	}
	if s.done < o.End {
		return false
	}
	s.previous, s.started = o.ID, true
	return true
}

// resume goes on with an object whose first part another stream delivered.
func (s *Source) resume(o Object, own bool) (bool, error) {
	out := s.sub.merge.out.Log
	held, _ := out.Last()
	if err := s.compare(o, out, held, own); err != nil {
		return false, err
	}
	have := out.End() - held.PayloadStart
	if s.in.End()-o.PayloadStart < have {
		return false, nil
	}
	s.done = o.PayloadStart + have
	return s.copyPayload(o, own), nil
}

// reveal makes the bytes of o readable that are still to be copied or compared.
func (s *Source) reveal(o Object, own bool) {
	if !own {
		return
	}
	if end := min(s.in.Written(), o.End); end > s.in.End() {
		s.in.Commit(end)
	}
}

// compareHeld compares an object that came before with what is held of it, when both are complete. An object that did not come before waits.
func (s *Source) compareHeld(o Object, own bool) (bool, error) {
	s.reveal(o, own)
	if s.in.End() < o.End {
		return false, nil
	}
	t := s.track
	t.mu.Lock()
	seen := s.group.seen.contains(o.ID)
	p, held := s.group.find(o.ID)
	t.mu.Unlock()
	if !seen || held && !p.complete() {
		return false, nil
	}
	if held && p.segment != nil {
		if err := s.compare(o, p.segment.Log, p.object, own); err != nil {
			return false, err
		}
	}
	s.skip(o)
	return true, nil
}

// compare returns an error if o differs from the same object in another log in what must not differ (draft §9.1), as far as both have come.
func (s *Source) compare(o Object, log *Log, held Object, own bool) error {
	s.reveal(o, own)
	at := moqt.Location{Group: s.group.id, Object: o.ID}
	if o.PayloadLen() != held.PayloadLen() || o.Status != held.Status {
		return malformed("object %s came with different payloads", at)
	}
	if !bytes.Equal(s.in.properties(o).Immutable(), log.properties(held).Immutable()) {
		return malformed("object %s came with different immutable properties", at)
	}
	n := min(s.in.End()-o.PayloadStart, log.End()-held.PayloadStart, o.PayloadLen())
	if !equalBytes(s.in, o.PayloadStart, log, held.PayloadStart, n) {
		return malformed("object %s came with different payloads", at)
	}
	return nil
}

// equalBytes compares n bytes of two logs; bytes that are no longer held count as equal.
func equalBytes(a *Log, aOff int64, b *Log, bOff, n int64) bool {
	ra, err := a.NewReader(aOff, nil)
	if err != nil {
		return true
	}
	defer ra.Close()
	rb, err := b.NewReader(bOff, nil)
	if err != nil {
		return true
	}
	defer rb.Close()
	for n > 0 {
		va := ra.View(aOff, int(n))
		vb := rb.View(bOff, len(va))
		if !bytes.Equal(va[:len(vb)], vb) {
			return false
		}
		aOff, bOff, n = aOff+int64(len(vb)), bOff+int64(len(vb)), n-int64(len(vb))
	}
	return true
}

// finishSubgroup records that last is the last object of the subgroup and, with END_OF_GROUP, of the group.
func (g *group) finishSubgroup(sub *subgroup, last Object, endOfGroup bool) error {
	if sub.finished && sub.last != last.ID {
		return malformed("subgroup %d of group %d ended after objects %d and %d", sub.id, g.id, sub.last, last.ID)
	}
	for _, s := range g.segments {
		if o, ok := s.Log.Last(); ok && s.Subgroup == sub.id && o.ID > last.ID {
			return malformed("subgroup %d of group %d ended after object %d, but object %d came", sub.id, g.id, last.ID, o.ID)
		}
	}
	sub.finished, sub.last = true, last.ID
	if !endOfGroup || last.ID == 1<<64-1 {
		return nil
	}
	limit := last.ID + 1
	if last.Status != moqt.StatusNormal {
		limit = last.ID
	}
	if err := g.checkLimit(limit); err != nil {
		return err
	}
	g.end(limit)
	return nil
}
