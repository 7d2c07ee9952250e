package softirq

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench/bpf"
)

// The programs have the same roles.
func TestRoles(t *testing.T) {
	require.EqualValues(t, bpf.SoftirqsRoleROLE_NOBODY, Nobody)
	require.EqualValues(t, bpf.SoftirqsRoleROLE_RELAY, Relay)
	require.EqualValues(t, bpf.SoftirqsRoleROLE_PUBLISHER, Publisher)
	require.EqualValues(t, bpf.SoftirqsRoleROLE_SUBSCRIBERS, Subscribers)
	require.EqualValues(t, bpf.SoftirqsRoleROLES, roles)
}

func TestMinus(t *testing.T) {
	later := Times{Devices: [roles]time.Duration{1, 5}, Processes: [roles]time.Duration{0, 0, 9, 2}}
	earlier := Times{Devices: [roles]time.Duration{1, 2}, Processes: [roles]time.Duration{0, 0, 4}}
	require.Equal(t, Times{Devices: [roles]time.Duration{0, 3}, Processes: [roles]time.Duration{0, 0, 5, 2}},
		later.Minus(earlier))
}
