package ipfix

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// line is a connection that records when messages were written. It may hold one up.
type line struct {
	net.Conn // nil
	at       []time.Time
	hold     int // the message that takes a second; 0: none
	on       func(n int)
}

func (l *line) SetWriteDeadline(time.Time) error { return nil }
func (l *line) Close() error                     { return nil }

func (l *line) Write(b []byte) (int, error) {
	l.at = append(l.at, time.Now())
	if len(l.at) == l.hold {
		time.Sleep(time.Second)
	}
	if l.on != nil {
		l.on(len(l.at))
	}
	return len(b), nil
}

// most returns how many messages come within a time at most.
func (l *line) most(d time.Duration) (most int) {
	first := 0
	for n, at := range l.at {
		for at.Sub(l.at[first]) >= d {
			first++
		}
		most = max(most, n-first+1)
	}
	return most
}

// onLine calls test with an exporter to a line.
func onLine(t *testing.T, cfg Config, test func(*testing.T, *Exporter, *line)) {
	synctest.Test(t, func(t *testing.T) {
		cfg.Address = "127.0.0.1:4739"
		e, err := New(cfg)
		require.NoError(t, err)
		require.NoError(t, e.Close())
		l := new(line)
		e.conn = l
		test(t, e, l)
	})
}

// many returns an interval with a number of prefixes.
func many(prefixes int, length time.Duration) *report.Interval {
	i := reporttest.Interval()
	i.Start, i.Prefixes = i.End.Add(-length), nil
	for n := range prefixes {
		i.Prefixes = append(i.Prefixes, report.Prefix{
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24),
		})
	}
	return i
}

// TestPace: 100,000 prefixes are spread over half of their interval, and never more at once than a socket has room for.
func TestPace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prefixes int
		length   time.Duration
	}{
		"a minute": {100_000, time.Minute}, "a second": {10_000, time.Second}, "few prefixes": {500, time.Minute},
		"no prefixes": {0, time.Minute}, "no time": {500, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onLine(t, Config{}, func(t *testing.T, e *Exporter, l *line) {
				began := time.Now()
				require.NoError(t, e.Interval(many(test.prefixes, test.length)))
				require.Equal(t, began, l.at[0], "the first one does not wait")
				most := min(test.length/2, time.Duration(len(l.at)-1)*mostGap)
				require.LessOrEqual(t, time.Since(began), most)
				if most > 0 {
					const some = 10 * time.Millisecond
					require.LessOrEqual(t, l.most(some), len(l.at)*int(some)/int(most)+2, "evenly")
				}
			})
		})
	}
}

// TestPaceAfterADelay has a message that takes a second: a burst makes up for a part of it.
func TestPaceAfterADelay(t *testing.T) {
	t.Parallel()
	onLine(t, Config{}, func(t *testing.T, e *Exporter, l *line) {
		l.hold = 100
		require.NoError(t, e.Interval(many(5_000, 3*time.Second)))
		require.LessOrEqual(t, l.most(time.Millisecond), burst+1)
		require.Greater(t, l.most(time.Millisecond), burst-2)
	})
}

// TestHurry ends the monitor within an interval, and replays a capture.
func TestHurry(t *testing.T) {
	t.Parallel()
	onLine(t, Config{}, func(t *testing.T, e *Exporter, l *line) {
		l.on = func(n int) {
			if n == 100 {
				e.Hurry()
			}
		}
		require.NoError(t, e.Interval(many(10_000, time.Minute)))
		require.LessOrEqual(t, l.at[len(l.at)-1].Sub(l.at[100]), time.Duration(len(l.at))*leastGap)
		require.LessOrEqual(t, l.most(time.Millisecond), 11)
	})
	onLine(t, Config{Replay: true}, func(t *testing.T, e *Exporter, l *line) {
		for range 100 {
			require.NoError(t, e.Interval(many(50, time.Minute)))
		}
		require.LessOrEqual(t, l.most(time.Millisecond), 11, "also of several intervals")
	})
}
