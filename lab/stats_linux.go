package lab

import "fmt"

// LinkStats counts what one direction of a link did.
type LinkStats struct {
	Packets    uint64 `json:"packets"`    // that entered and are subject to the conditions
	Exempt     uint64 `json:"exempt"`     // that are not: broadcast, multicast, ARP, neighbour discovery
	Lost       uint64 `json:"lost"`       // by Loss
	Duplicated uint64 `json:"duplicated"` // by Duplicate
	Reordered  uint64 `json:"reordered"`  // by Reorder
	Delayed    uint64 `json:"delayed"`    // that went through userspace, for Delay or Reorder
	Returned   uint64 `json:"returned"`   // of those, and of their duplicates, that came back
	Failed     uint64 `json:"failed"`     // dropped because the kernel refused a step; expected to be 0
	QueueDrops uint64 `json:"queueDrops"` // that waited longer than Queue for Rate
}

// Stats returns the counters of one direction since the lab was built. QueueDrops counts since Rate was last set.
func (k *Link) Stats(d Direction) (LinkStats, error) {
	var perCPU []linkEvents
	if err := k.lab.bpf.Counters.Lookup(k.lane(d), &perCPU); err != nil {
		return LinkStats{}, fmt.Errorf("read counters: %w", err)
	}
	var sum linkEvents
	for _, cpu := range perCPU {
		for i, n := range cpu.Count {
			sum.Count[i] += n
		}
	}
	s := LinkStats{
		Packets:    sum.Count[linkEventPACKETS],
		Exempt:     sum.Count[linkEventEXEMPT],
		Lost:       sum.Count[linkEventLOST],
		Duplicated: sum.Count[linkEventDUPLICATED],
		Reordered:  sum.Count[linkEventREORDERED],
		Delayed:    sum.Count[linkEventWIRED],
		Returned:   sum.Count[linkEventRETURNED],
		Failed:     sum.Count[linkEventFAILED],
	}
	var err error
	if d == FromHost {
		s.QueueDrops, err = k.device.host.ns.rateDrops(k.device.device)
	} else {
		s.QueueDrops, err = k.lab.network.ns.rateDrops(k.port)
	}
	return s, err
}
