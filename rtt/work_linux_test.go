package rtt

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDuties moves a clock, and looks at which duties run and when the next one is due.
func TestDuties(t *testing.T) {
	const second = time.Second
	start := time.Unix(1000, 0)
	var done []string
	does := func(name string, every time.Duration) duty {
		return duty{every: every, do: func() error {
			done = append(done, name)
			return nil
		}}
	}
	d := duties{does("two", 2*second), does("three", 3*second)}
	d.begin(start)
	require.Equal(t, start.Add(2*second), d.next())
	for _, at := range []struct {
		now  time.Duration
		want []string
		next time.Duration
	}{
		{now: second, next: 2 * second},
		{now: 2 * second, want: []string{"two"}, next: 3 * second},
		{now: 2*second + 1, next: 3 * second},
		{now: 3*second + second/2, want: []string{"three"}, next: 4 * second},
		{now: 6 * second, want: []string{"two", "three"}, next: 8 * second}, // one of two that have passed
		{now: 7*second + second/2, next: 8 * second},
		{now: 21 * second, want: []string{"two", "three"}, next: 22 * second}, // the times stay as they were
		{now: 20 * second, next: 22 * second},                                 // a clock that goes back
	} {
		done = nil
		require.NoError(t, d.do(start.Add(at.now)))
		require.Equal(t, at.want, done, at.now)
		require.Equal(t, start.Add(at.next), d.next(), at.now)
	}
}

func TestDutyFails(t *testing.T) {
	full, second := errors.New("no space left"), 0
	d := duties{
		{every: time.Second, do: func() error { return full }},
		{every: time.Second, do: func() error {
			second++
			return nil
		}},
	}
	d.begin(time.Unix(1000, 0))
	require.ErrorIs(t, d.do(time.Unix(1001, 0)), full)
	require.Zero(t, second, "the measurement ends")
}
