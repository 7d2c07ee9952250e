package bpftest

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"sluice/claim"
)

// Policy is the loaded programs that ask the policy.
type Policy struct{ PolicyObjects }

// NewPolicy loads them, after changes.
func NewPolicy(t testing.TB, changes ...func(*ebpf.CollectionSpec) error) *Policy {
	t.Helper()
	k := new(Policy)
	load(t, LoadPolicy, &k.PolicyObjects, changes...)
	return k
}

// MayGo returns the answer for a packet of a connection.
func (k *Policy) MayGo(t testing.TB, s *claim.ConnState, level, size uint32) PolicyReason {
	t.Helper()
	k.set(t, s, size)
	require.NoError(t, k.Copy.Set(PolicyClaim{Level: level}))
	why, _ := runOnce(t, k.TestMayGo, 0)
	return PolicyReason(why)
}

// Take takes a packet from the bucket and the pacer's, and returns when these are full.
func (k *Policy) Take(t testing.TB, s *claim.ConnState, size uint32, now uint64) (bucket, pacer uint64) {
	t.Helper()
	k.set(t, s, size)
	require.NoError(t, k.Now.Set(now))
	runOnce(t, k.TestTake, 0)
	var after PolicyConnState
	require.NoError(t, k.Connection.Get(&after))
	return after.BucketAt, after.PacedAt
}

func (k *Policy) set(t testing.TB, s *claim.ConnState, size uint32) {
	require.NoError(t, k.Connection.Set(PolicyConnState{
		InFlight: s.InFlight.Load(), Window: s.Window.Load(), Threshold: s.Threshold.Load(), Mtu: s.MTU.Load(),
		BucketAt: s.BucketAt.Load(), Bounds: s.Bounds.Load(),
		BucketCost: s.BucketCost.Load(), BucketBurst: s.BucketBurst.Load(),
		PacedAt: s.PacedAt.Load(), PaceCost: s.PaceCost.Load(), PaceBurst: s.PaceBurst.Load(),
		PaceWaits: s.PaceWaits.Load(),
	}))
	require.NoError(t, k.PacketLen.Set(size))
}

// SetPacket sets the group of the packets.
func (k *Policy) SetPacket(t testing.TB, group uint64) {
	t.Helper()
	putPerCPU(t, k.Scratches, &PolicyScratch{Group: group})
}
