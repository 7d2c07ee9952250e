package relay

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// TestTellInBatches checks that a request that matches much does not keep the lock, and is not told about values that
// have gone meanwhile.
func TestTellInBatches(t *testing.T) {
	var tree watchedTree[numbered, *countingWatch]
	var values []numbered
	for i := range numbered(3*tellBatch - 1) {
		values = append(values, i)
		tree.values.add(i.at(), i)
	}
	w := &countingWatch{}
	gone := values[2*tellBatch]
	lock := hookedLock{unlocked: func() {
		w.batches = append(w.batches, w.found)
		w.found = 0
		tree.values.remove(gone.at(), gone)
	}}
	tree.tell(t.Context(), lock, w, values)
	require.Equal(t, []int{tellBatch, tellBatch, tellBatch - 2}, w.batches)

	ctx, cancel := context.WithCancel(t.Context())
	w = &countingWatch{}
	tree.tell(ctx, hookedLock{unlocked: cancel}, w, values)
	require.Equal(t, tellBatch, w.found, "the request is over")
}

type numbered int

func (n numbered) at() place { return moqt.Namespace{"", fmt.Sprint(n)} }

type countingWatch struct {
	prefixWatch
	found   int
	batches []int
}

func (w *countingWatch) changedLocked(numbered) { w.found++ }

// hookedLock calls a function when it is unlocked.
type hookedLock struct{ unlocked func() }

func (hookedLock) Lock()     {}
func (l hookedLock) Unlock() { l.unlocked() }
