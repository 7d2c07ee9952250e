package video

import (
	"time"

	"sluice/moqt"
)

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
