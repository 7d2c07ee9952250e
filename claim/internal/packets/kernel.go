package packets

import "sluice/claim/internal/check"

// place is where a run of the forwarder's program is.
type place uint8

const (
	idle place = iota
	begun
	hasNumber
	recorded
	left // the packet has left
)

// sender is a run that makes a copy of a publisher's packet.
type sender struct {
	at         place
	up         uint8 // publisher's packets that have gone up to user space
	number     uint8
	generation uint8
	stored     uint8 // the number that a broken addition stores
}

// forwarder has the rules of a run.
type forwarder struct{ model }

func (m forwarder) rules() []check.Rule[state] {
	return append(m.takeNumber(), m.sendRules()...)
}

// sendRules follow when a run has a number.
func (m forwarder) sendRules() []check.Rule[state] {
	sendFirst := !m.keeps("the record is written before the packet leaves")
	return []check.Rule[state]{
		{
			Name: "the forwarder claims and writes the record", Code: "fastpath/bpf/shared/claim.h: claim_bytes",
			Fair: true, Next: func(s state) []state {
				if s.kernel.at != hasNumber && s.kernel.at != left {
					return nil
				}
				claimed, aborted := s, s
				if m.commit(&claimed); sendFirst && s.kernel.at == hasNumber {
					return []state{claimed}
				}
				aborted.writers--
				m.goesUp(&aborted)
				return []state{claimed, aborted}
			},
		},
		check.Step("the forwarder seals and sends", "fastpath/bpf/fanout/stream.h: build_copy",
			func(s *state) bool { return s.kernel.at == recorded },
			func(s *state) { s.kernel.send(s); m.goesUp(s) }),
	}
}

// takeNumber is how a run takes a number, with the key generation.
func (m forwarder) takeNumber() []check.Rule[state] {
	begin := check.Step("the forwarder gets a publisher's packet", "",
		func(s *state) bool { return s.kernel.at == idle && s.kernel.up < chunks && s.end.at == lives },
		func(s *state) {
			s.kernel.at = begun
			s.kernel.generation, s.kernel.stored = s.generation, s.next
			if m.keeps("number and key generation are one word") {
				s.kernel.generation = 0
			}
			if m.keeps("a number is taken by one addition") {
				s.kernel.stored = 0
			}
			if !m.keeps("a packet goes up when its copies are recorded") {
				s.kernel.up++
				s.media.wake = true
			}
		})
	take := check.Step("the forwarder takes a number", "fastpath/bpf/shared/claim.h: begin_packet",
		func(s *state) bool { return s.kernel.at == begun && s.next < numbers },
		func(s *state) {
			if s.end.at == given {
				s.broken = reused
			}
			if s.end.at != lives { // the numbers are closed
				m.goesUp(s)
				return
			}
			k := &s.kernel
			if m.keeps("number and key generation are one word") {
				k.generation = s.generation
			}
			if !m.keeps("a number is taken by one addition") {
				s.next = k.stored
			}
			k.at, k.number = hasNumber, s.next
			s.number(k.generation)
			s.writers++
		})
	return []check.Rule[state]{begin, take}
}

// number takes the next number, for a packet with a key generation.
func (s *state) number(generation uint8) {
	n := s.network
	switch {
	case n.used.has(s.next):
		s.broken = usedTwice
	case generation == 0 && n.newer != 0:
		s.broken = olderKey
	}
	s.network.used.add(s.next)
	if generation > 0 {
		s.network.newer.add(s.next)
	}
	s.next++
}

// commit claims the next byte and writes the record. Broken, it does so after the packet has left.
func (m forwarder) commit(s *state) {
	k := &s.kernel
	sendFirst := !m.keeps("the record is written before the packet leaves")
	switch {
	case s.end.at == given:
		s.broken = reused
	case s.end.at != lives:
	case sendFirst && k.at == hasNumber:
		k.send(s)
		k.at = left
		return
	case s.cursor < chunks:
		s.ledger[k.number] = record{live, s.cursor}
		s.cursor++
	}
	s.writers--
	if k.at = recorded; sendFirst || s.ledger[k.number].is != live {
		m.goesUp(s)
	}
}

// send seals a packet and sends it.
func (k *sender) send(s *state) {
	if s.end.at == given {
		s.broken = reused
	}
	if s.end.at != lives {
		return
	}
	if !s.keys.has(k.generation) {
		s.broken = noKey
	}
	s.network.way.add(k.number)
}

// goesUp ends a run: the publisher's packet goes up to user space, which wakes the media sender.
func (m forwarder) goesUp(s *state) {
	up := s.kernel.up
	if s.kernel = (sender{up: up}); s.end.at == lives && m.keeps("a packet goes up when its copies are recorded") {
		s.kernel.up = min(up+1, chunks)
		s.media.wake = true
	}
	s.end.awaitsKernel = false
}
