package fastpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf"
)

// longAgo is before the machine was booted.
const longAgo = 10 * 365 * 24 * time.Hour

// TestPrecedes compares times of a machine that was booted a moment ago, too.
func TestPrecedes(t *testing.T) {
	second := uint64(time.Second)
	for name, tt := range map[string]struct {
		earlier, later uint64
	}{
		"of a machine that is up":     {3600 * second, 3601 * second},
		"by a nanosecond":             {5 * second, 5*second + 1},
		"10 s ago, 5 s after booting": {5*second - 10*second, 5 * second},
		"long ago":                    {5*second - uint64(longAgo), 5 * second},
		"both before booting":         {-(2 * second), -second},
	} {
		require.True(t, precedes(tt.earlier, tt.later), name)
		require.False(t, precedes(tt.later, tt.earlier), name)
		require.False(t, precedes(tt.later, tt.later), name)
	}
}

// TestObjectsAfterBooting has the relay forget objects on a machine that was booted less than 10 s ago: there are none
// that are so old.
func TestObjectsAfterBooting(t *testing.T) {
	r, _ := objectRig(t, 1)
	r.publish(object(7, 5))
	r.receiveDatagram(r.subscribers[0])
	up := 5 * time.Second
	r.fast.reclaimer.forgetObjects(uint64(up - objectFor))
	require.Len(t, keysOf(r.ingress.Objects, func(*bpf.ObjectKey, *bpf.ObjectClaim) bool { return true }), 1)
	r.publish(object(7, 5))
	require.EqualValues(t, 1, r.counts()["frame_claimed"])
}
