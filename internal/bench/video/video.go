package video

import (
	"time"

	"sluice/moqt"
)

// Source is the video that a publisher publishes and subscribers expect.
type Source interface {
	// Frame describes the n-th frame of the broadcast, counted from 0.
	Frame(n uint64) Frame
	// Payload returns its content.
	Payload(n uint64, published time.Time) []byte
	// Verify returns when the object at a location was published, or an error if its content does not belong there.
	Verify(moqt.Location, *Digest) (published time.Time, err error)
}

// Frame is the place of a frame in a broadcast.
type Frame struct {
	moqt.Location
	Layer    int           // its subgroup
	Priority uint8         // Publisher Priority of that
	Due      time.Duration // since the first frame
}

// Arrival is an object that arrived. Times are Unix, ns.
type Arrival struct {
	Group     uint64 `json:"g"`
	Object    uint64 `json:"o"`
	Published int64  `json:"p"`
	Arrived   int64  `json:"a"`
	Bytes     int    `json:"b"`
	Rendition int    `json:"r,omitempty"` // its rank, if there are several
}
