package track

import (
	"math"

	"sluice/moqt"
)

// Position is where a track stands at one moment. All that comes later on subscriptions either has a segment that is
// not open yet, or comes in one of the open segments, which keep it until Close.
type Position struct {
	Largest *moqt.Location // the Largest Object, nil if none is known
	Open    []OpenSegment
}

// OpenSegment is a segment that may get more objects on subscriptions.
type OpenSegment struct {
	*Segment
	end    int64   // of the log
	reader *Reader // keeps what follows
}

// Close ends the use of the open segments.
func (p Position) Close() {
	for _, s := range p.Open {
		s.reader.Close()
	}
}

// Next returns the smallest id of the objects that begin after the position. It reports false if there is none.
func (s OpenSegment) Next() (id uint64, ok bool) {
	last, some := s.Log.Last() // before Covering: an object that is added now is found by one of them
	o, covered := s.Log.Covering(s.end)
	switch {
	case covered && o.Start == s.end:
		return o.ID, true
	case covered:
		last = o
	case !some: // a new segment may have no object in its log yet
		return s.First, true
	}
	return last.ID + 1, last.ID < math.MaxUint64
}
