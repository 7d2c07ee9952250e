package names

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTell checks that a request that matches much does not keep the lock.
func TestTell(t *testing.T) {
	values := slices.Repeat([]int{1}, 3*tellBatch-1)
	var batches []int
	found := 0
	find := func(int) { found++ }
	lock := hookedLock{unlocked: func() {
		batches = append(batches, found)
		found = 0
	}}
	Tell(t.Context(), lock, values, find)
	require.Equal(t, []int{tellBatch, tellBatch, tellBatch - 1}, batches)

	ctx, cancel := context.WithCancel(t.Context())
	Tell(ctx, hookedLock{unlocked: cancel}, values, find)
	require.Equal(t, tellBatch, found, "the request is over")
}

// hookedLock calls a function when it is unlocked.
type hookedLock struct{ unlocked func() }

func (hookedLock) Lock()     {}
func (l hookedLock) Unlock() { l.unlocked() }
