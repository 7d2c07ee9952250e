package fastpath

import (
	"sluice/fastpath/bpf"
)

// Streams counts the streams that the kernel knows of.
func (f *FastPath) Streams() int {
	return len(keysOf(f.kernel.ingress.Downstreams, func(*bpf.DownstreamKey, *uint32) bool { return true }))
}
