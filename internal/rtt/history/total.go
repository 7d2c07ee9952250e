package history

import (
	"time"

	"sluice/internal/rtt/report"
)

// Totals are the sums of some time.
type Totals struct {
	From, To time.Time
	Prefixes []Series // in no order
}

// Total sums what a history has of a query, of the 1,000 prefixes with the most RTTs. If some have no RTTs, but another
// part such as queries, it also sums what there is of the 1,000 with most of that part.
func Total(dir string, q Query) (*Totals, error) {
	o, err := look(dir, q)
	if err != nil {
		return nil, err
	}
	each := make(map[string]*Series)
	for prefix := range o.prefixes() {
		s := newTotal(prefix)
		each[prefix] = &s
	}
	err = q.read(dir, func(r *Row) error {
		if s := each[r.Label()]; s != nil {
			h := o.histogram(r)
			s.add(r, &h)
		}
		return nil
	})
	t := &Totals{From: o.from, To: o.to}
	for _, s := range each {
		t.Prefixes = append(t.Prefixes, *s)
	}
	return t, err
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

func (c *Congestion) add(segments, retransmissions, capable, marked uint64) {
	c.TCPSegments += segments
	c.Retransmissions += retransmissions
	c.ECNCapable += capable
	c.ECNMarked += marked
}
