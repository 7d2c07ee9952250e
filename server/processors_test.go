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
	frees, drops := make(chan struct{}, 10), make(chan struct{}, 10)
	p := &processors{
		all: 8, set: func(n int) { set = append(set, n) }, at: start, free: func() { frees <- struct{}{} },
		drop: func() { drops <- struct{}{} },
	}
	now, cpu, sent := start, time.Duration(0), uint64(0)
	for _, step := range []struct {
		name string
		wait time.Duration
		cpu  time.Duration
		sent uint64
		want []int
		free bool
		drop bool
	}{
		{"too short a time to measure", loadInterval - 1, loadInterval, burst + 1, nil, false, false},
		{"too much to compute since then", loadInterval, loadInterval, 0, nil, false, false},
		{"a pause", calmAfter - 1, 0, 0, nil, false, false},
		{"a longer pause", loadInterval, 0, 0, []int{1}, true, false},
		{"little to do, and garbage was collected", time.Minute, time.Second, trickle, nil, false, true},
		{"little to do", time.Minute, time.Second, trickle, nil, false, false},
		{"much to send", loadInterval, 0, burst + 1, []int{8}, false, false},
		{"another pause", calmAfter - 1, 0, 0, nil, false, false},
		{"much to compute", loadInterval, loadInterval, 0, nil, false, false},
		{"garbage was collected, and little was sent for long", loadInterval, 0, 0, nil, false, true},
		{"another pause after that", calmAfter - loadInterval - 1, 0, 0, nil, false, false},
		{"another longer pause", loadInterval, 0, 0, []int{1}, true, false},
		{"much to send again", loadInterval, 0, burst + 1, []int{8}, false, false},
		{"a pause soon after the last", calmAfter, 0, 0, []int{1}, false, false},
	} {
		set = nil
		now, cpu, sent = now.Add(step.wait), cpu+step.cpu, sent+step.sent
		if step.drop {
			p.collected.Store(true)
		}
		p.look(now, func() uint64 { return sent }, func() time.Duration { return cpu })
		require.Equal(t, step.want, set, step.name)
		if step.free {
			<-frees
		}
		if step.drop {
			<-drops
		}
	}
	require.Empty(t, frees, "memory is given back rarely")
	require.Empty(t, drops, "the program's pages are given back after a garbage collection")
}

// TestPagesStayWhileMediaIsSent sends more than what the kernel leaves to the process, and then no more than that.
func TestPagesStayWhileMediaIsSent(t *testing.T) {
	drops := make(chan struct{}, 1)
	p := &processors{one: true, at: time.Now(), drop: func() { drops <- struct{}{} }}
	p.collected.Store(true)
	now, sent := p.at, uint64(0)
	look := func(wait time.Duration, packets uint64) {
		now, sent = now.Add(wait), sent+packets
		p.look(now, func() uint64 { return sent }, func() time.Duration { return 0 })
	}
	look(loadInterval, trickle+1)
	look(calmAfter-1, trickle)
	require.True(t, p.collected.Load(), "the pages stay")
	look(loadInterval, trickle)
	<-drops
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
