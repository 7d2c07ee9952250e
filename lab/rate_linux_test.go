package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// KernelRate returns the rate of the token bucket in front of one direction, bits a second; 0 if there is none.
func (k *Link) KernelRate(t *testing.T, d Direction) uint64 {
	t.Helper()
	ns, device := k.lab.network.ns, k.port
	if d == FromHost {
		ns, device = k.device.host.ns, k.device.device
	}
	queues, err := ns.Netlink.QdiscList(device)
	require.NoError(t, err)
	for _, q := range queues {
		if tbf, ok := q.(*netlink.Tbf); ok {
			return tbf.Rate * 8
		}
	}
	return 0
}
