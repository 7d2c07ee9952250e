package report

// Loss has the losses of packets in one direction, by the loss bits of QUIC (RFC 9506).
type Loss struct {
	All      uint64 `json:"all"`      // packets that were sent, in whole blocks of 64
	Passed   uint64 `json:"passed"`   // packets of All that passed the monitor; the others were lost before
	Reported uint64 `json:"reported"` // losses that their senders have noticed, before the monitor or behind it
}

// Plus returns the sum.
func (l Loss) Plus(o Loss) Loss {
	return Loss{l.All + o.All, l.Passed + o.Passed, l.Reported + o.Reported}
}

// NamedCounts returns the counters.
func (l Loss) NamedCounts() []NamedCount {
	return []NamedCount{{"all", l.All}, {"passed", l.Passed}, {"reported", l.Reported}}
}
