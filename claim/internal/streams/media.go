package streams

import (
	"slices"

	"sluice/claim/internal/check"
)

// sending is where the media sender is with the subscriber's stream.
type sending uint8

const (
	absent sending = iota
	adopts         // has found a stream that the forwarder opens
	serves
	knowsEnd // of the log
	knowsAll // also where it was severed
	done
)

// media is the media sender's knowledge of its stream.
type media struct {
	at     sending
	slot   int8
	header bool   // sent
	until  int8   // log offset: later bytes are not the stream's
	reset  bool   // the stream was reset
	late   int8   // a slot whose opening took too long
	from   int8   // the cursor, as it has seen it
	end    int8   // of the log, as it has seen it
	last   bool   // the log ends there
	origin origin // that the slot is for, or that the forwarder was last asked for
	asking asking
	spare  int8 // a slot for B's stream, without the cursor
}

// asking is how far the media sender is with having the forwarder go on with B's stream.
type asking uint8

const (
	asksNot   asking = iota
	announces        // B's stream
	takes            // a slot, if B is there
	inserts          // the slot into the map of streams
	attaches         // the cursor
)

// shared reports whether the stream's state is in shared memory.
func (d *media) shared() bool { return d.slot >= 0 && d.slot != own }

// mediaRule is a step of the media sender, or with code "" an event that it meets.
func mediaRule(
	name, code string, possible func(s *state, d *media) bool, change func(s *state, d *media),
) check.Rule[state] {
	return check.Step(name, code,
		func(s *state) bool { return possible(s, &s.media) }, func(s *state) { change(s, &s.media) })
}

// sender has the rules of the media sender.
type sender struct{ model }

func (m sender) rules() []check.Rule[state] {
	return slices.Concat(m.openRules(), m.sendRules(), m.resumeRules(), m.endRules())
}

// openRules give the subscription a stream. Whether it wants one is up to the world.
func (m sender) openRules() []check.Rule[state] {
	wants := mediaRule("the subscription opens a stream", "fastpath/subscriber_linux.go: takeStream",
		func(s *state, d *media) bool {
			return s.conn == there && d.at == absent && s.feeds[a].at == reads && s.relay.end > 0
		},
		func(s *state, _ *media) { s.openStream() })
	wants.Fair = false
	isOpened := func(s *state, d *media) bool { return s.slots[d.slot].phase != opening }
	return []check.Rule[state]{
		wants,
		mediaRule("the media sender finds it opened", "media/streams.go: adopt",
			func(s *state, d *media) bool { return d.at == adopts && isOpened(s, d) },
			func(s *state, _ *media) { s.adopt() }),
		mediaRule("the opening takes too long for the media sender", "",
			func(s *state, d *media) bool { return d.at == adopts && !isOpened(s, d) },
			func(s *state, _ *media) { m.refuse(s) }),
	}
}

// sendRules send the log's bytes.
func (m sender) sendRules() []check.Rule[state] {
	first, second := (*state).readEnd, m.readCut
	endFirst := m.keeps("the end of the log is read before the place of the cut")
	if !endFirst {
		first, second = second, first
	}
	return []check.Rule[state]{
		mediaRule("the media sender sees that the log was severed", "media/stream.go: update",
			func(s *state, d *media) bool { return d.at == serves && m.isSevered(s) },
			func(s *state, _ *media) { m.detach(s) }),
		mediaRule("the media sender looks at the log", "media/content.go: fresh",
			func(s *state, d *media) bool { return d.at == serves && (s.mayClaim() || !endFirst) },
			func(s *state, d *media) {
				d.at, d.from, d.end = knowsEnd, s.slots[d.slot].cursor(), unlimited
				first(s)
			}),
		mediaRule("the media sender looks where the log was severed", "media/content.go: bound",
			func(_ *state, d *media) bool { return d.at == knowsEnd },
			func(s *state, d *media) { d.at = knowsAll; second(s) }),
		mediaRule("the media sender claims", "media/stream.go: sendNew",
			func(_ *state, d *media) bool { return d.at == knowsAll },
			func(s *state, _ *media) {
				if !s.sendNew() && m.isSevered(s) {
					m.detach(s)
				}
			}),
	}
}

func (s *state) readEnd() {
	d := &s.media
	d.end, d.last = min(d.end, s.relay.end), s.relay.log == logFinished && d.until == unlimited
}

func (m sender) readCut(s *state) {
	d := &s.media
	if m.isSevered(s) {
		d.end = min(d.end, s.severed())
	}
	d.end = min(d.end, d.until)
}

// endRules end the stream.
func (m sender) endRules() []check.Rule[state] {
	return []check.Rule[state]{
		mediaRule("all has arrived", "media/stream.go: settle",
			func(s *state, d *media) bool {
				st := &s.slots[max(d.slot, 0)]
				return d.at == serves && d.until == unlimited && st.ended && st.cursor() == s.relay.end
			},
			func(s *state, d *media) { d.at, d.header = done, false; s.reset(d.slot) }),
		mediaRule("the log has nothing more for the stream", "media/stream.go: ending",
			func(s *state, d *media) bool {
				return d.at == serves && (s.relay.log == logReset || d.until != unlimited) &&
					s.slots[d.slot].cursor() >= min(s.relay.end, d.until)
			},
			func(s *state, _ *media) { s.end() }),
		mediaRule("the subscription is canceled", "",
			func(_ *state, d *media) bool { return d.at == serves }, func(s *state, _ *media) { s.end() }),
	}
}

// resumeRules have the forwarder go on with B's stream, when the log does.
func (m sender) resumeRules() []check.Rule[state] {
	always := !m.keeps("the forwarder goes on with a stream while user space reads it")
	at := func(step asking) func(s *state, d *media) bool {
		return func(_ *state, d *media) bool { return d.asking == step }
	}
	return []check.Rule[state]{
		mediaRule("the media sender sees that the log goes on with another stream", "media/content.go: next",
			func(s *state, d *media) bool { return d.at == serves && m.mayAsk(s) },
			func(s *state, d *media) {
				if d.origin = s.relay.origin; d.origin == fromB {
					d.asking = announces
				}
			}),
		mediaRule("the forwarder gets to know B's stream", "fastpath/publisher_linux.go: goOn", at(announces),
			func(s *state, d *media) {
				f := &s.feeds[b]
				if d.asking = takes; !f.ended && f.conn == there || always {
					f.subgroup = true
				}
			}),
		mediaRule("B is there, when the media sender wants a slot", "fastpath/conn_linux.go: wasServed", at(takes),
			func(s *state, d *media) {
				if d.asking = inserts; s.feeds[b].conn == swept {
					d.asking = asksNot
				}
			}),
		mediaRule("the media sender takes a slot for B", "fastpath/subscriber_linux.go: takeStream", at(inserts),
			func(s *state, _ *media) { m.takeSpare(s) }),
		mediaRule("the cursor moves to the offsets of B's stream", "media/content.go: attach",
			func(s *state, d *media) bool { return d.asking == attaches && (d.at == serves || d.at == done) },
			func(s *state, _ *media) { m.attach(s) }),
	}
}

// mayAsk reports whether the log goes on with a stream that the media sender has not asked the forwarder about, and the
// cursor has come as far. That it goes on with C's matters only while the answer about B's is due.
func (m sender) mayAsk(s *state) bool {
	d, st := &s.media, &s.slots[s.media.slot]
	switch {
	case d.shared(), d.until != unlimited, !d.header, st.ended, d.origin == s.relay.origin:
		return false
	case s.relay.origin == fromC:
		return d.asking != asksNot
	}
	return st.cursor() >= s.relay.from || !m.keeps("the forwarder goes on when the cursor has reached the origin")
}

// takeSpare gets a slot for B's stream. A stream that the forwarder has opened is abandoned. If B was swept meanwhile,
// its index may be another publisher's.
func (m sender) takeSpare(s *state) {
	d, f := &s.media, &s.feeds[b]
	free := s.freeSlot()
	d.asking = asksNot
	switch {
	case f.took:
	case f.downstream != none:
		d.late, f.took = f.downstream, true
	case free != none:
		d.asking, d.spare = attaches, free
		if s.slots[free].phase = opening; !m.keeps("a slot is opening until the cursor has moved there") {
			s.slots[free] = slot{phase: open, next: s.slots[own].next} // of an earlier stream
		}
		if f.conn != swept || !m.keeps("a stream is hidden that is opened after that") {
			f.downstream, f.took = free, true
		}
	}
}

// attach moves the cursor into the forwarder's memory, or gives the slot back.
func (m sender) attach(s *state) {
	d := &s.media
	to := d.spare
	d.asking, d.spare = asksNot, none
	lasts := s.relay.severed[b] == none || !m.keeps("the forwarder gets a stream only while its origin lasts")
	if d.at == done || s.slots[own].ended || !lasts {
		s.reset(to)
		return
	}
	s.moveTo(to, s.relay.delta)
}

// openStream takes the stream over that the forwarder has opened, or opens it.
func (s *state) openStream() {
	d, f := &s.media, &s.feeds[a]
	free := s.freeSlot()
	switch {
	case f.downstream != none:
		d.at, d.slot = adopts, f.downstream
	case free != none:
		d.at, d.slot, f.downstream = serves, free, free
		s.slots[free] = slot{phase: opening}
	default:
		d.at, d.slot = serves, own
		s.slots[own] = slot{phase: open}
		return
	}
	f.took = true
}

// adopt goes on with a stream that the forwarder has opened, or has failed to open.
func (s *state) adopt() {
	d := &s.media
	st := &s.slots[d.slot]
	if d.at, d.header = serves, st.phase == open; st.phase == abandoned {
		st.phase = opening
	}
}

// refuse goes on without a forwarder that takes too long to open the stream. If the forwarder has claimed its first
// byte, the stream is open but for its phase. Otherwise the forwarder may not claim it any more.
func (m sender) refuse(s *state) {
	d := &s.media
	st := &s.slots[d.slot]
	switch {
	case !m.keeps("an opening that takes too long stays the forwarder's"):
		d.at, st.next, st.ended = serves, 0, false
	case st.next > 0:
		d.at, d.header = serves, true
	default:
		st.ended = true
		if m.keeps("a late opening is abandoned when it has ended") {
			d.late = d.slot
		}
		d.at, d.slot = serves, own
		s.slots[own] = slot{phase: open}
	}
}

// isSevered reports whether the stream has to leave the forwarder.
func (m sender) isSevered(s *state) bool {
	return s.media.shared() && s.severed() != none && m.keeps("the cursor moves before the log goes on")
}

// severed returns the log offset where the origin broke off that the media sender knows, or none.
func (s *state) severed() int8 {
	switch s.media.origin {
	case fromA:
		return s.relay.severed[a]
	case fromB:
		return s.relay.severed[b]
	}
	return none
}

// detach moves the cursor to the media sender's own memory, because another stream may go on with the log.
func (m sender) detach(s *state) {
	d := &s.media
	from, shared, at := d.slot, s.slots[d.slot], s.severed()
	next := shared.cursor()
	s.moveTo(own, 0)
	if (next > at || shared.ended) && m.keeps("a cursor ahead of the cut stops there") {
		d.until = min(next, at)
	}
	if !m.keeps("a cursor is closed where it leaves") {
		s.slots[from].next, s.slots[from].ended = shared.next, shared.ended
	}
}

// moveTo goes on with the stream in another slot. An offset of the log is an offset of the slot plus delta.
func (s *state) moveTo(to, delta int8) {
	d := &s.media
	st := s.slots[d.slot]
	st.next, st.delta = st.cursor()-delta, delta
	s.slots[to] = st
	s.reset(d.slot)
	d.slot = to
}

// mayClaim reports whether there is something to claim for the media sender. Else it is not worth a look.
func (s *state) mayClaim() bool {
	d := &s.media
	st := &s.slots[d.slot]
	return !st.ended && (st.cursor() < min(s.relay.end, d.until) || s.relay.log == logFinished && d.until == unlimited)
}

// sendNew claims the next byte of the log, or FIN. It reports whether it has.
func (s *state) sendNew() bool {
	d := &s.media
	st := &s.slots[d.slot]
	at, end, last := d.from, d.end, d.last
	d.at, d.from, d.end, d.last = serves, 0, 0, false
	switch {
	case st.ended || st.cursor() != at: // the forwarder was faster
		return false
	case at < end:
		s.take(d.slot, s.relay.held[at])
		s.begin(st)
	case last && at == end:
		st.ended = true
	default:
		return false
	}
	return true
}

// begin opens the stream on the wire, with the header.
func (s *state) begin(st *slot) {
	if st.hasID = true; !s.media.header {
		s.headers++
	}
	if s.media.header = true; st.phase == opening {
		st.phase = open
	}
}

// end resets the stream.
func (s *state) end() {
	s.media.at, s.media.reset, s.media.header = done, true, false
	s.reset(s.media.slot)
}
