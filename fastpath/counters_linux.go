package fastpath

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cilium/ebpf/btf"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

// reasonNames returns the labels of the programs' counters: the names of enum reason (bpf/shared/reason.h) in lower
// case.
func reasonNames(types *btf.Spec) ([]string, error) {
	var reasons *btf.Enum
	if err := types.TypeByName("reason", &reasons); err != nil {
		return nil, fmt.Errorf("fast path: the names of reasons: %w", err)
	}
	var names []string
	for _, v := range reasons.Values {
		if bpf.Reason(v.Value) != bpf.IngressReasonREASON_COUNT {
			names = append(names, strings.ToLower(v.Name))
		}
	}
	return names, nil
}

// Counts returns how often the programs counted each reason, by name.
func (f *FastPath) Counts() (map[string]uint64, error) {
	if !f.enter() {
		return nil, errClosed
	}
	defer f.exit()
	return f.kernel.Counts()
}

// Counts returns how often each reason was counted, by name.
func (k *kernel) Counts() (map[string]uint64, error) {
	counts := make(map[string]uint64, len(k.reasons))
	var perCPU []uint64
	for reason, name := range k.reasons {
		if err := k.tables.Reasons.Lookup(uint32(reason), &perCPU); err != nil {
			return nil, fmt.Errorf("fast path: read the counter of %s: %w", name, err)
		}
		for _, n := range perCPU {
			counts[name] += n
		}
	}
	return counts, nil
}

// Copies returns the number of copies for a subscriber, by reason: "sent", "window" and so on, the names of Counts that
// begin with copy_. It is nil if the fast path does not serve the connection.
func (f *FastPath) Copies(to claim.ForwarderConn) map[string]uint64 {
	c, _ := to.(*conn)
	if c == nil || !f.enter() {
		return nil
	}
	defer f.exit()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.copies
	}
	return f.kernel.Copies(c.index)
}

// Copies returns the number of copies for a subscriber, by reason, see [FastPath.Copies].
func (k *kernel) Copies(index uint32) map[string]uint64 {
	counts := make(map[string]uint64)
	for i := range k.copies[index].ByReason {
		if n := atomic.LoadUint64(&k.copies[index].ByReason[i]); n > 0 {
			counts[strings.TrimPrefix(k.reasons[int(bpf.IngressReasonCOPY_SENT)+i], "copy_")] = n
		}
	}
	return counts
}
