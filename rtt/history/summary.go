package history

import (
	"errors"

	"sluice/rtt/report"
)

const (
	candidates = 1000 // prefixes, those with the most RTTs, that are summed
	minRTTs    = 20   // of a prefix that is summed
)

// ErrEmpty is returned if a history has nothing of a time, and ErrNoPrefix if it has nothing of a prefix then.
var (
	ErrEmpty    = errors.New("nothing was measured in that time")
	ErrNoPrefix = errors.New("nothing was measured of that prefix in that time")
)

// Series has the measurements of a prefix in a span of time.
type Series struct {
	Prefix string // with its other keys
	RTT    report.Histogram
	Parts  map[string]*report.Histogram // by their names
	Bytes  uint64                       // to and from it
	Congestion
	Loss           report.Loss // of QUIC, in both directions
	Sent, Received Direction
}

func newTotal(prefix string) Series {
	return Series{Prefix: prefix, Parts: make(map[string]*report.Histogram)}
}

// add adds a row, whose histogram is h.
func (s *Series) add(r *Row, h *report.Histogram) {
	s.Bytes += r.SentBytes + r.ReceivedBytes
	s.Congestion.add(r.TCPSegments, r.Retransmissions, r.ECNCapable, r.ECNMarked)
	s.Sent.add(r.SentTCPSegments, r.SentRetransmissions, r.SentECNCapable, r.SentECNMarked)
	s.Received.add(r.ReceivedTCPSegments, r.ReceivedRetransmissions, r.ReceivedECNCapable, r.ReceivedECNMarked)
	sent := report.Loss{All: r.QUICSent, Passed: r.QUICSentPassed, Reported: r.QUICSentReported}
	received := report.Loss{All: r.QUICReceived, Passed: r.QUICReceivedPassed, Reported: r.QUICReceivedReported}
	s.Sent.Loss, s.Received.Loss = s.Sent.Loss.Plus(sent), s.Received.Loss.Plus(received)
	s.Loss = s.Loss.Plus(sent).Plus(received)
	s.RTT.Add(h)
	for i := range r.Parts {
		part := &r.Parts[i]
		if s.Parts[part.Name] == nil {
			s.Parts[part.Name] = new(report.Histogram)
		}
		h := part.Histogram(r)
		s.Parts[part.Name].Add(&h)
	}
}

// Congestion has the signs of congestion, besides losses of QUIC.
type Congestion struct {
	TCPSegments, Retransmissions uint64 // the second are a part of the first
	ECNCapable, ECNMarked        uint64 // as well
}

func (c *Congestion) add(segments, retransmissions, capable, marked uint64) {
	c.TCPSegments += segments
	c.Retransmissions += retransmissions
	c.ECNCapable += capable
	c.ECNMarked += marked
}

// Direction has the congestion and losses of packets that a prefix sent, or received. Files of earlier versions do not
// have its Congestion.
type Direction struct {
	Congestion
	Loss report.Loss // of QUIC
}
