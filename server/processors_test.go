package server

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestProcessors changes the load.
func TestProcessors(t *testing.T) {
	start := time.Now()
	var set []int
	p := &processors{all: 8, set: func(n int) { set = append(set, n) }, at: start}
	now, cpu, sent := start, time.Duration(0), uint64(0)
	for _, step := range []struct {
		name string
		wait time.Duration
		cpu  time.Duration
		sent uint64
		want []int
	}{
		{"too short a time to measure", loadInterval - 1, loadInterval, burst + 1, nil},
		{"too much to compute since then", loadInterval, loadInterval, 0, nil},
		{"a pause", calmAfter - 1, 0, 0, nil},
		{"a longer pause", loadInterval, 0, 0, []int{1}},
		{"little to do", time.Minute, time.Second, burst, nil},
		{"much to send", loadInterval, 0, burst + 1, []int{8}},
		{"another pause", calmAfter - 1, 0, 0, nil},
		{"much to compute", loadInterval, loadInterval, 0, nil},
		{"a pause after that", calmAfter - 1, 0, 0, nil},
		{"another longer pause", loadInterval, 0, 0, []int{1}},
	} {
		set = nil
		now, cpu, sent = now.Add(step.wait), cpu+step.cpu, sent+step.sent
		p.look(now, func() uint64 { return sent }, func() time.Duration { return cpu })
		require.Equal(t, step.want, set, step.name)
	}
}

// TestProcessorsOfTheProcess begins with one, and uses all.
func TestProcessorsOfTheProcess(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	p := newProcessors(time.Now())
	require.Equal(t, 1, runtime.GOMAXPROCS(0))
	p.look(time.Now().Add(loadInterval), func() uint64 { return 0 }, cpuTime)
	require.Equal(t, 4, runtime.GOMAXPROCS(0))
}

// TestCPUTime works until it is measured.
func TestCPUTime(t *testing.T) {
	before := cpuTime()
	require.Eventually(t, func() bool { return cpuTime() > before }, time.Minute, time.Nanosecond)
}
