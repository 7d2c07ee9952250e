package packets

import "sluice/claim/internal/check"

// ack is a packet of the peer's with an ACK.
type ack struct {
	of    set  // packets that it acknowledges; none: there is no packet
	twice bool // the network brings it twice
}

// knower is who knows that a packet has come which comes twice.
type knower uint8

const (
	nobody knower = iota
	theReader
	quicGo // and the reader
)

// reader has the rules of those that read packets: the socket's reader, and quic-go.
type reader struct{ model }

func (m reader) rules() []check.Rule[state] { return append(m.readerRules(), m.quicRules()...) }

// readerRules are the goroutine that reads the socket: it has one packet after the other. Whether quic-go has to see an
// ACK is up to the world.
func (m reader) readerRules() []check.Rule[state] {
	ordered := m.keeps("the reader opens nothing while quic-go has a packet")
	onlyNew := m.keeps("the reader opens no packet that has come before")
	return []check.Rule[state]{
		check.Step("the reader opens an ACK", "media/sender.go: readLocked",
			func(s *state) bool {
				return s.reader.of != 0 && (s.quic.ack.of == 0 || !ordered) &&
					(!s.reader.twice || s.twin == nobody || !onlyNew)
			},
			func(s *state) {
				a := s.reader
				s.reader = ack{}
				m.handle(s, a, theReader)
			}),
		check.Step("the reader leaves an ACK to quic-go", "media/sender.go: leavesAcks",
			func(s *state) bool { return s.reader.of != 0 && s.quic.ack.of == 0 },
			func(s *state) { s.quic.ack, s.reader = s.reader, ack{} }),
	}
}

// quic is the packet that quic-go has.
type quic struct {
	ack  ack
	told bool // of what the reader has opened before
}

func (m reader) quicRules() []check.Rule[state] {
	tells := m.keeps("quic-go is told what the reader has opened before it opens a packet")
	return []check.Rule[state]{
		check.Step("quic-go is told what the reader has opened", "media/hooks.go: ReceivedElsewhere",
			func(s *state) bool { return s.quic.ack.of != 0 && !s.quic.told },
			func(s *state) {
				if s.quic.told = true; tells && s.twin == theReader {
					s.twin = quicGo
				}
			}),
		check.Step("quic-go handles the ACK, or drops it", "media/hooks.go: Acked",
			func(s *state) bool { return s.quic.told },
			func(s *state) {
				a := s.quic.ack
				if s.quic = (quic{}); !a.twice || s.twin != quicGo {
					m.handle(s, a, quicGo)
				}
			}),
	}
}

// handle handles an ACK, which by has opened.
func (m reader) handle(s *state, a ack, by knower) {
	if a.twice {
		if s.twin != nobody {
			s.broken = handledTwice
		}
		s.twin = by
	}
	mediaSender(m).acknowledge(s, a.of)
}
