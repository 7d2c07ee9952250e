package fastpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/delay"
)

// delays returns the measured delays.
func (f *FastPath) delays(t *testing.T) delay.Histogram {
	h, err := f.Delays()
	require.NoError(t, err)
	return h
}

// TestDelays measures copies of rtp_ingress and of a worker: only while it is on, and from when the packet came.
func TestDelays(t *testing.T) {
	d := newRTPDriven(t, 5) // four in one run, and one by the worker
	d.run(rtpPacket(1, "payload"))
	d.drive(unchanged)
	require.EqualValues(t, 5, d.counts()["copy_sent"])
	require.Zero(t, d.delays(t), "nobody wants to know")

	d.Measure(true)
	for i, age := range []time.Duration{0, 1200, 5 * time.Microsecond, time.Millisecond, 777 * time.Millisecond,
		5 * time.Second} {
		d.run(rtpPacket(2+i, "payload"))
		before := d.delays(t)
		d.drive(func(jobs [][]byte) {
			require.Len(t, jobs, 1)
			jobOf(jobs[0]).Since -= uint64(age)
		})
		after := d.delays(t)
		took := after.Sum - before.Sum
		require.Greater(t, took, age)
		for bin := range after.Bins {
			in := took >= delay.Start(bin) && (bin+1 == delay.Bins || took < delay.Start(bin+1))
			require.Equal(t, in, after.Bins[bin] == before.Bins[bin]+1, "%v, bin %d", took, bin)
		}
	}
	h := d.delays(t)
	require.EqualValues(t, d.counts()["copy_sent"]-5, h.Count())

	d.Measure(false)
	before := d.delays(t)
	d.run(rtpPacket(20, "payload"))
	d.drive(unchanged)
	require.Equal(t, before, d.delays(t))
}

// TestDelaysOfDatagrams measures copies of an object in a datagram.
func TestDelaysOfDatagrams(t *testing.T) {
	r, _ := objectRig(t, 3)
	r.fast.Measure(true)
	r.publish(object(5, 1))
	require.EqualValues(t, 3, r.counts()["copy_sent"], "%v", r.counts())
	h := r.fast.delays(t)
	require.EqualValues(t, 3, h.Count())
}
