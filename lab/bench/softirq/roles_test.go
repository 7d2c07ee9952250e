package softirq

import (
	"testing"

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
