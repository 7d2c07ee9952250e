package trial

import (
	"time"

	"sluice/lab/bench/load"
	"sluice/lab/bench/procfs"
	"sluice/lab/bench/syscalls"
	"sluice/lab/measure"
)

// Measurement is the result of a trial.
type Measurement struct {
	Usage
	Packets  []measure.Packet          // in the measured period, at the points of a relay, or of a [lab.Chain]
	Timeline []Usage                   // the same CPU time, by parts of the period
	Syscalls map[string]syscalls.Calls // of the relay
	// Functions is the CPU time of the relay's process by function, without what the functions call.
	Functions map[string]time.Duration
	// Published is what all Publishers have published together. Each session is for the video of one of them.
	Published  load.Published
	Publishers int
	Received   [][]load.Received // by host
	Memory     procfs.Memory     // of the relay
	Before     procfs.Memory     // the same, before there were subscribers
	// Pinged has the bystander's pings in the measured period, IdlePinged those before media flowed.
	Pinged, IdlePinged load.Pinged
	Peer               string // the implementation that the relay names
}
