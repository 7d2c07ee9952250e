package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestProcessors changes the load.
func TestProcessors(t *testing.T) {
	start := time.Now()
	p := newProcessors(start)
	p.all = 8
	var set []int
	p.set = func(n int) { set = append(set, n) }
	now, cpu, sent := start, time.Duration(0), uint64(0)
	for _, step := range []struct {
		name string
		wait time.Duration
		cpu  time.Duration
		sent uint64
		want []int
	}{
		{"the start", time.Second, 0, 0, nil},
		{"little to do", calmAfter, 100 * time.Millisecond, 10, []int{1}},
		{"still little to do", time.Minute, time.Second, burst, nil},
		{"too short a time to measure", loadInterval - 1, loadInterval, burst, nil},
		{"much to compute", loadInterval, loadInterval, 0, []int{8}},
		{"a pause", calmAfter - 1, 0, 0, nil},
		{"much to send", loadInterval, 0, burst + 1, nil},
		{"another pause", calmAfter - 1, 0, 0, nil},
		{"a longer pause", loadInterval, 0, 0, []int{1}},
		{"much to send again", loadInterval, 0, burst + 1, []int{8}},
	} {
		set = nil
		now, cpu, sent = now.Add(step.wait), cpu+step.cpu, sent+step.sent
		p.look(now, sent, func() time.Duration { return cpu })
		require.Equal(t, step.want, set, step.name)
	}
}

// TestOneProcessor has nothing to choose from.
func TestOneProcessor(t *testing.T) {
	start := time.Now()
	p := newProcessors(start)
	p.all, p.set = 1, func(int) { t.Error("changed") }
	p.look(start.Add(time.Hour), 0, cpuTime)
}

// TestCPUTime works until it is measured.
func TestCPUTime(t *testing.T) {
	before := cpuTime()
	require.Eventually(t, func() bool { return cpuTime() > before }, time.Minute, time.Nanosecond)
}
