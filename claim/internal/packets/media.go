package packets

import "sluice/claim/internal/check"

// media is the media sender's knowledge.
type media struct {
	at        turn
	wake      bool // a turn is due
	alarm     bool // of the loss detection timer
	expired   bool
	own       bool // it has sent something itself
	largest   uint8
	acked     bool // largest is valid
	delivered set  // bytes
	lost      set  // bytes to send again
	updating  uint8
}

// turn is where a turn is.
type turn uint8

const (
	sleeps turn = iota
	judges
	sends
)

// mediaSender has the rules of the media sender.
type mediaSender struct{ model }

func (m mediaSender) rules() []check.Rule[state] {
	return append(m.turnRules(), m.keyRules()...)
}

// turnRules are a turn of the media sender, which was woken or whose alarm has gone.
func (m mediaSender) turnRules() []check.Rule[state] {
	at := func(p turn) func(*state) bool {
		return func(s *state) bool { return s.media.at == p && s.end.at == lives }
	}
	begin := func(s *state, expired bool) {
		s.media.at, s.media.wake, s.media.expired = judges, false, expired
	}
	sleeping := at(sleeps)
	return []check.Rule[state]{
		check.Step("a turn begins", "media/shard.go: take",
			func(s *state) bool { return sleeping(s) && s.media.wake }, func(s *state) { begin(s, false) }),
		check.Step("the alarm goes", "media/recovery.go: expire",
			func(s *state) bool {
				return sleeping(s) && s.media.alarm && !s.media.wake && s.isQuiet() && s.kernel.at == idle
			},
			func(s *state) { begin(s, true) }),
		check.Step("the turn looks for lost packets, and probes", "media/recovery.go: expire", at(judges), m.judge),
		check.Step("the turn sends", "media/stream.go: send", at(sends), m.send),
	}
}

// keyRules are a key update, in two steps.
func (m mediaSender) keyRules() []check.Rule[state] {
	first, second := func(s *state) { s.keys.add(1) }, func(s *state) { s.generation = 1 }
	if !m.keeps("the forwarder gets keys before numbers ask for them") {
		first, second = second, first
	}
	return []check.Rule[state]{
		check.Step("the forwarder gets new keys", "",
			func(s *state) bool { return s.media.updating == 0 && s.cursor > 0 && s.end.at == lives },
			func(s *state) { s.media.updating = 1; first(s) }),
		check.Step("numbers ask for the new keys", "media/keys.go: install",
			func(s *state) bool { return s.media.updating == 1 },
			func(s *state) { s.media.updating = 2; second(s) }),
	}
}

// judge considers packets lost if a later packet was acknowledged. When the alarm expires, it sends the outstanding
// chunks again.
func (m mediaSender) judge(s *state) {
	s.detectLost()
	for n := range s.next {
		if r := s.ledger[n]; s.media.expired && r.is == live && m.keeps("a probe sends again what is outstanding") {
			s.media.lost.add(r.chunk)
			break
		}
	}
	s.media.at, s.media.expired = sends, false
	s.media.lost &^= s.media.delivered
}

// send sends a packet, or ends the turn: the alarm is set while something is outstanding.
func (m mediaSender) send(s *state) {
	d := &s.media
	switch {
	case s.next == numbers:
	case d.lost != 0:
		s.sendChunk(d.lost.first())
		return
	case s.cursor < s.kernel.up:
		s.cursor++
		s.sendChunk(s.cursor - 1)
		return
	}
	d.at = sleeps
	d.alarm = s.isOutstanding() && (d.own || m.keeps("the alarm is also for the forwarder's packets")) ||
		s.writers > 0 && m.keeps("a packet goes up when its copies are recorded")
}

// isOutstanding reports whether a packet is neither acknowledged nor lost.
func (s *state) isOutstanding() bool {
	for _, r := range s.ledger {
		if r.is == live {
			return true
		}
	}
	return false
}

func (s *state) sendChunk(chunk uint8) {
	s.ledger[s.next] = record{live, chunk}
	s.network.way.add(s.next)
	s.media.lost &^= 1 << chunk
	s.media.own = true
	s.number(s.generation)
}

// acknowledge handles the packets that an ACK acknowledges.
func (m mediaSender) acknowledge(s *state, of set) {
	for n := range s.next {
		r := &s.ledger[n]
		switch {
		case !of.has(n):
			continue
		case r.is == missing:
			s.broken = noRecord
		default:
			r.is = acked
			s.media.delivered.add(r.chunk)
			s.media.lost &^= 1 << r.chunk
		}
		s.media.largest, s.media.acked = max(s.media.largest, n), true
	}
	if s.detectLost()&s.quic.ack.of != 0 {
		s.broken = lateVerdict
	}
}

// detectLost considers packets lost that are older than an acknowledged one, and returns them.
func (s *state) detectLost() (numbers set) {
	for n := range s.next {
		if r := &s.ledger[n]; r.is == live && s.media.acked && n < s.media.largest {
			numbers.add(n)
			r.is = lost
			s.media.lost.add(r.chunk)
			s.media.lost &^= s.media.delivered
			s.media.wake = true
		}
	}
	return numbers
}
