package moqt

import "math"

// noType is a type of streams or datagrams that cannot appear in draft-16: its numbers are smaller.
const noType = math.MaxUint64

// newWire16 returns the format of draft-16.
func newWire16() *wire {
	return &wire{
		streams: streamTypes{
			fetch:           0x05,
			setup:           noType,
			padding:         noType,
			paddingDatagram: noType,
		},
		data:             DataLayout2,
		absoluteFetchIDs: true,
	}
}
