package fastpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf"
)

// UDPFrame is an Ethernet frame without its addresses.
var UDPFrame = udpFrame

// WithWorkers runs tests once more.
var WithWorkers = withWorkers

// Varied are the settings of a test that WithWorkers runs.
func Varied(s Settings) Settings {
	variant(&s)
	return s
}

// AwaitWorkers waits until the workers have done what they were given.
func (f *FastPath) AwaitWorkers() { f.kernel.workers.awaitAll(time.Minute) }

// ForgetNumbers forgets which packets have come.
func (f *FastPath) ForgetNumbers() {
	for i := range f.kernel.publishers {
		p := &f.kernel.publishers[i]
		p.FirstNumber, p.Numbers = 0, bpf.Publisher{}.Numbers
	}
}

// Streams counts the streams that the kernel knows of.
func (f *FastPath) Streams() int {
	return len(keysOf(f.kernel.ingress.Downstreams, func(*bpf.DownstreamKey, *uint32) bool { return true }))
}

// get returns the value with an index.
func (v *versioned[T]) get(index uint32) (value T, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	err = v.elements.Lookup(bpf.VersionKey{Version: v.current[index], Index: index}, &value)
	return value, err
}

// AskedWithoutLength returns how often the rule of bpftest was asked without the length of a packet.
func (r *Rule) AskedWithoutLength(t testing.TB) (times uint64) {
	require.NoError(t, r.maps.Maps["asked"].Lookup(uint32(1), &times))
	return times
}
