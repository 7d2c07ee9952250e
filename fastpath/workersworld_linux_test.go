package fastpath_test

import (
	"testing"

	"sluice/fastpath"
)

// TestWorkersAndSenders expects workers and the media sender to share connections as server_ingress and the media
// sender do.
func TestWorkersAndSenders(t *testing.T) {
	fastpath.WithWorkers(t, 1, map[string]func(*testing.T){
		"KernelBetweenAccesses": TestKernelBetweenAccesses, "KernelBeforeEnd": TestKernelBeforeEnd,
		"KernelBeforeMove": TestKernelBeforeMove, "KernelRaces": TestKernelRaces, "KernelOpens": TestKernelOpens,
		"Conditions": TestConditions, "Stress": TestStress, "Unread": TestUnread,
		"Crowd": TestCrowd, "VLAN": TestVLAN,
	})
}
