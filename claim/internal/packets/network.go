package packets

import "sluice/claim/internal/check"

// network is the packets under way, and the peer's state.
type network struct {
	used, newer set   // numbers; numbers of packets with the newer key
	way         set   // packets to the peer
	received    set   // by the peer
	owesAck     bool  // the peer has received something
	ack         ack   // under way to us
	late        ack   // is overtaken by later ACKs, or comes a second time
	faults      uint8 // of the network: losses, delays and repetitions, still to come
}

// wire has the rules of packets and ACKs on their way.
type wire struct{ model }

func (m wire) rules() []check.Rule[state] {
	return append(m.packetRules(), m.ackRules()...)
}

// happens is a step of the network that comes at last, or with fair false may come.
func happens(name string, fair bool, possible func(s *state) bool, change func(s *state)) check.Rule[state] {
	r := check.Step(name, "", func(s *state) bool { return s.end.at == lives && possible(s) }, change)
	r.Fair = fair
	return r
}

// packetRules are about packets on their way to the peer. Any of them may come first.
func (m wire) packetRules() []check.Rule[state] {
	each := func(name string, fair bool, possible func(*network) bool, change func(*network, uint8)) check.Rule[state] {
		return check.Rule[state]{Name: name, Fair: fair, Next: func(s state) (next []state) {
			for number := range uint8(numbers) {
				if s.end.at == lives && s.network.way.has(number) && possible(&s.network) {
					t := s
					t.network.way &^= 1 << number
					change(&t.network, number)
					next = append(next, t)
				}
			}
			return next
		}}
	}
	return []check.Rule[state]{
		each("a packet arrives", true, func(*network) bool { return true },
			func(n *network, number uint8) { n.received.add(number); n.owesAck = true }),
		each("a packet is lost", false, func(n *network) bool { return n.faults > 0 },
			func(n *network, _ uint8) { n.faults-- }),
	}
}

// ackRules are about ACKs on their way to us. They come once and in order, but for one that is overtaken or repeated.
func (m wire) ackRules() []check.Rule[state] {
	arrives := func(s *state, a *ack) { s.reader, *a = *a, ack{} }
	mayFail := func(s *state) bool { return s.network.ack.of != 0 && s.network.faults > 0 }
	return []check.Rule[state]{
		happens("the peer acknowledges", true,
			func(s *state) bool { return s.network.owesAck && s.network.ack.of == 0 },
			func(s *state) { s.network.ack.of, s.network.owesAck = s.network.received, false }),
		happens("an ACK arrives", true,
			func(s *state) bool { return s.reader.of == 0 && s.network.ack.of != 0 },
			func(s *state) { arrives(s, &s.network.ack) }),
		happens("a late ACK arrives", true,
			func(s *state) bool { return s.reader.of == 0 && s.network.late.of != 0 },
			func(s *state) { arrives(s, &s.network.late) }),
		happens("an ACK is lost", false, mayFail,
			func(s *state) { s.network.ack = ack{}; s.network.faults-- }),
		happens("an ACK is overtaken", false, mayFail,
			func(s *state) { s.network.late, s.network.ack = s.network.ack, ack{}; s.network.faults-- }),
		happens("an ACK is repeated", false, mayFail,
			func(s *state) {
				s.network.ack.twice = true
				s.network.late = s.network.ack
				s.network.faults--
			}),
	}
}

// isQuiet reports whether nothing is under way. The alarm of a probe is later than that.
func (s *state) isQuiet() bool {
	n := &s.network
	return n.way == 0 && n.ack.of|n.late.of|s.reader.of|s.quic.ack.of == 0 && !n.owesAck
}
