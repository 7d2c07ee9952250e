package bpftest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
)

// Policy is the loaded programs that ask the policy.
type Policy struct{ PolicyObjects }

// NewPolicy loads them.
func NewPolicy(t testing.TB) *Policy {
	t.Helper()
	k := new(Policy)
	RequireKernel(t, LoadPolicyObjects(&k.PolicyObjects, nil))
	t.Cleanup(func() { k.Close() })
	return k
}

// MayGo returns the answer for a packet of a connection, and the time at which the program asked: 0 if it did not look.
func (k *Policy) MayGo(t testing.TB, s *claim.ConnState, level, size uint32) (PolicyReason, uint64) {
	t.Helper()
	k.set(t, s, size)
	require.NoError(t, k.Copy.Set(PolicyClaim{Level: level}))
	why, cpu := runOnce(t, k.TestMayGo, 0)
	return PolicyReason(why), getPerCPU[PolicyAdmission](t, k.Questions, cpu).Now
}

// Take takes a packet from the bucket, and returns when that is full.
func (k *Policy) Take(t testing.TB, s *claim.ConnState, size uint32, now uint64) uint64 {
	t.Helper()
	k.set(t, s, size)
	require.NoError(t, k.Now.Set(now))
	runOnce(t, k.TestTake, 0)
	var after PolicyConnState
	require.NoError(t, k.Connection.Get(&after))
	return after.BucketAt
}

func (k *Policy) set(t testing.TB, s *claim.ConnState, size uint32) {
	require.NoError(t, k.Connection.Set(PolicyConnState{
		InFlight: s.InFlight.Load(), Window: s.Window.Load(), Threshold: s.Threshold.Load(), Mtu: s.MTU.Load(),
		BucketAt: s.BucketAt.Load(), Bounds: s.Bounds.Load(),
		BucketCost: s.BucketCost.Load(), BucketBurst: s.BucketBurst.Load(),
	}))
	require.NoError(t, k.PacketLen.Set(size))
}
