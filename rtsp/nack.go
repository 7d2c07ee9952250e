package rtsp

import (
	"maps"

	"golang.org/x/time/rate"
)

// Limits of packets that a player gets again.
const (
	maxRepeats  = 2   // of a packet
	repeatRate  = 200 // packets that it may ask for in a second
	repeatBurst = 100
)

// repeats has the packets that a player has got again; stream.mu guards it.
type repeats struct {
	asked *rate.Limiter
	times map[uint64]int // by the numbers of packets in the stream
	first uint64         // that is kept, when times was cleared of older ones
}

// forget forgets packets that are not kept any more, if these are others than before.
func (r *repeats) forget(first uint64) {
	if first == r.first {
		return
	}
	r.first = first
	maps.DeleteFunc(r.times, func(number uint64, _ int) bool { return number < first })
}
