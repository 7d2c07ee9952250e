package history

import (
	"errors"

	"sluice/internal/rtt/report"
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
	Prefix string // with what else tells it apart
	RTT    report.Histogram
	Parts  map[string]*report.Histogram // by their names
	Bytes  uint64                       // to and from it
	Congestion
	Loss           report.Loss // of QUIC, in both directions
	Sent, Received Direction
}

// Congestion is what tells of congestion, besides losses of QUIC.
type Congestion struct {
	TCPSegments, Retransmissions uint64 // the second are a part of the first
	ECNCapable, ECNMarked        uint64 // as well
}

// Direction is what is known of the packets that a prefix sent, or received. Files of earlier versions do not have its
// Congestion.
type Direction struct {
	Congestion
	Loss report.Loss // of QUIC
}
