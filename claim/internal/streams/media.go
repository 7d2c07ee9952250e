package streams

import "sluice/claim/internal/check"

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
	took   bool // user space has A's stream in its table: the slot is the media sender's, or is being abandoned
	header bool // sent
	until  int8 // log offset: later bytes are not the stream's
	reset  bool // the stream was reset
	late   int8 // a slot whose opening took too long
	from   int8 // the cursor, as it has seen it
	end    int8 // of the log, as it has seen it
	last   bool // the log ends there
}

// shared reports whether the stream's state is in shared memory.
func (d *media) shared() bool { return d.slot >= 0 && d.slot != own }

// mediaRule is a step of the media sender, or with code "" an event that it meets.
func mediaRule(
	name, code string, possible func(s *state, d *media) bool, change func(s *state, d *media),
) check.Rule[state] {
	return check.Rule[state]{Name: name, Code: code, Fair: code != "", Next: func(s state) []state {
		return one(possible(&s, &s.media), s, func(s *state) { change(s, &s.media) })
	}}
}

func (m model) media() []check.Rule[state] {
	return append(m.openRules(), append(m.sendRules(), m.endRules()...)...)
}

// openRules give the subscription a stream. Whether it wants one is up to the world.
func (m model) openRules() []check.Rule[state] {
	wants := mediaRule("the subscription opens a stream", "fastpath/subscriber_linux.go: takeStream",
		func(s *state, d *media) bool {
			return !s.left && d.at == absent && s.relay.at == reads && s.relay.end > 0
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
func (m model) sendRules() []check.Rule[state] {
	first, second := (*state).readEnd, m.readCut
	endFirst := m.keeps("the end of the log is read before the place of the cut")
	if !endFirst {
		first, second = second, first
	}
	return []check.Rule[state]{
		mediaRule("the media sender sees that the log was severed", "media/stream.go: update",
			func(s *state, d *media) bool { return d.at == serves && m.isSevered(s) },
			func(s *state, _ *media) { m.update(s) }),
		mediaRule("the media sender looks at the log", "media/content.go: fresh",
			func(s *state, d *media) bool { return d.at == serves && (s.mayClaim() || !endFirst) },
			func(s *state, d *media) {
				d.at, d.from, d.end = knowsEnd, s.slots[d.slot].next, unlimited
				first(s)
			}),
		mediaRule("the media sender looks where the log was severed", "media/content.go: bound",
			func(_ *state, d *media) bool { return d.at == knowsEnd },
			func(s *state, d *media) { d.at = knowsAll; second(s) }),
		mediaRule("the media sender claims", "media/stream.go: sendNew",
			func(_ *state, d *media) bool { return d.at == knowsAll },
			func(s *state, _ *media) {
				if !s.sendNew() {
					m.update(s)
				}
			}),
	}
}

func (s *state) readEnd() {
	d := &s.media
	d.end, d.last = min(d.end, s.relay.end), s.relay.log == logFinished && d.until == unlimited
}

func (m model) readCut(s *state) {
	d := &s.media
	if m.isSevered(s) {
		d.end = min(d.end, s.relay.severed)
	}
	d.end = min(d.end, d.until)
}

// endRules end the stream.
func (m model) endRules() []check.Rule[state] {
	return []check.Rule[state]{
		mediaRule("all has arrived", "media/stream.go: settle",
			func(s *state, d *media) bool {
				st := &s.slots[max(d.slot, 0)]
				return d.at == serves && d.until == unlimited && st.ended && st.next == s.relay.end
			},
			func(s *state, d *media) { d.at = done; s.reset(d.slot) }),
		mediaRule("the log has nothing more for the stream", "media/stream.go: ending",
			func(s *state, d *media) bool {
				return d.at == serves && (s.relay.log == logReset || d.until != unlimited) &&
					s.slots[d.slot].next >= min(s.relay.end, d.until)
			},
			func(s *state, _ *media) { s.end() }),
		mediaRule("the subscription is canceled", "",
			func(_ *state, d *media) bool { return d.at == serves }, func(s *state, _ *media) { s.end() }),
	}
}

// openStream takes the stream over that the forwarder has opened, or opens it.
func (s *state) openStream() {
	d := &s.media
	free := s.freeSlot()
	switch {
	case s.downstream != none:
		d.at, d.slot = adopts, s.downstream
	case free != none:
		d.at, d.slot, s.downstream = serves, free, free
		s.slots[free] = slot{phase: opening}
	default:
		d.at, d.slot = serves, own
		s.slots[own] = slot{phase: open}
		return
	}
	d.took = true
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
func (m model) refuse(s *state) {
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
func (m model) isSevered(s *state) bool {
	return s.media.shared() && s.relay.severed != none && m.keeps("the cursor moves before the log goes on")
}

// update looks whether that is so, when the log has grown or the media sender has tried to send.
func (m model) update(s *state) {
	if m.isSevered(s) {
		m.detach(s)
	}
}

// detach moves the cursor to the media sender's own memory, because another stream may go on with the log.
func (m model) detach(s *state) {
	d := &s.media
	shared := &s.slots[d.slot]
	s.slots[own] = *shared
	if shared.next > s.relay.severed || shared.ended {
		if m.keeps("a cursor ahead of the cut stops there") {
			d.until = min(shared.next, s.relay.severed)
		}
	}
	shared.phase, shared.ended, shared.hasID = closed, true, false
	s.closing |= 1 << d.slot
	d.slot = own
}

// mayClaim reports whether there is something to claim for the media sender. Else it is not worth a look.
func (s *state) mayClaim() bool {
	d := &s.media
	st := &s.slots[d.slot]
	return !st.ended && (st.next < min(s.relay.end, d.until) || s.relay.log == logFinished && d.until == unlimited)
}

// sendNew claims the next byte of the log, or FIN. It reports whether it has.
func (s *state) sendNew() bool {
	d := &s.media
	st := &s.slots[d.slot]
	at, end, last := d.from, d.end, d.last
	d.at, d.from, d.end, d.last = serves, 0, 0, false
	switch {
	case st.ended || st.next != at: // the forwarder was faster
		return false
	case at < end:
		s.take(d.slot, s.holds(at))
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
	s.media.at, s.media.reset = done, true
	s.reset(s.media.slot)
}
