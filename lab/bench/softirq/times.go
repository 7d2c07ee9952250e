package softirq

import "time"

// Role is a part of a trial.
type Role uint32

// The parts of a trial. Nobody has the links of a lab, and all that does not belong to the trial.
const (
	Nobody Role = iota
	Relay
	Publisher
	Subscribers
	roles
)

// Times is how long softirqs have run.
type Times struct {
	Devices   [roles]time.Duration // by whose device received the packet that they handled
	Processes [roles]time.Duration // by whose process they interrupted
}
