package fastpath

import "sluice/moqt"

// Forwarded returns a subgroup's header for subscribers, except for the Track Alias. The kernel writes the same.
func Forwarded(h moqt.SubgroupHeader, subgroup uint64, priority uint8) moqt.SubgroupHeader {
	h.SubgroupIDMode, h.SubgroupID = moqt.SubgroupIDZero, subgroup
	if subgroup != 0 {
		h.SubgroupIDMode = moqt.SubgroupIDPresent
	}
	h.DefaultPriority, h.Priority = false, priority
	return h
}
