package fastpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/delay"
)

// delays returns what was measured.
func (r *rig) delays() delay.Histogram {
	h, err := r.kernel.Delays()
	require.NoError(r.t, err)
	return h
}

// TestDelays measures copies of server_ingress and of a worker: only while it is on, and from when the packet came.
func TestDelays(t *testing.T) {
	d := newDriven(t, 2)
	d.give(subgroupBegins(3))
	d.drive(func() { d.worker.do(d.take()) })
	require.EqualValues(t, 2, d.counts()["copy_sent"])
	require.Zero(t, d.delays(), "nobody wants to know")

	d.kernel.Measure(true)
	for i, age := range []time.Duration{0, 1200, 5 * time.Microsecond, time.Millisecond, 777 * time.Millisecond,
		5 * time.Second} {
		d.give(subgroupBegins(uint64(7 + 4*i)))
		before := d.delays()
		d.drive(func() {
			jobs := d.take()
			require.Len(t, jobs, 1)
			jobOf(jobs[0]).Since -= uint64(age)
			d.worker.do(jobs)
		})
		after := d.delays()
		took := after.Sum - before.Sum
		require.Greater(t, took, age)
		for bin := range after.Bins {
			in := took >= delay.Start(bin) && (bin+1 == delay.Bins || took < delay.Start(bin+1))
			require.Equal(t, in, after.Bins[bin] == before.Bins[bin]+1, "%v, bin %d", took, bin)
		}
	}
	h := d.delays()
	require.EqualValues(t, d.counts()["copy_sent"]-2, h.Count())

	d.kernel.Measure(false)
	before := d.delays()
	d.give(subgroupBegins(103))
	d.drive(func() { d.worker.do(d.take()) })
	require.Equal(t, before, d.delays())
}

// TestDelaysOfDatagrams measures copies of an object in a datagram.
func TestDelaysOfDatagrams(t *testing.T) {
	r, _ := objectRig(t, 3)
	r.kernel.Measure(true)
	r.publish(object(5, 1))
	require.EqualValues(t, 3, r.counts()["copy_sent"], "%v", r.counts())
	h := r.delays()
	require.EqualValues(t, 3, h.Count())
}
