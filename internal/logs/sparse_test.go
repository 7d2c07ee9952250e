package logs

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSparse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logged := newLog()
		s := NewSparse(log)
		for i := range 1000 {
			s.Log(slog.LevelWarn, "a", "refused", "peer", i)
		}
		require.Equal(t, "level=WARN msg=refused peer=0\n", logged())
		s.Log(slog.LevelError, "b", "broken")
		require.Equal(t, "level=ERROR msg=broken\n", logged(), "another key")

		time.Sleep(Interval - 1)
		s.Log(slog.LevelWarn, "a", "refused", "peer", 1000)
		require.Empty(t, logged())
		time.Sleep(1 * time.Nanosecond)
		s.Log(slog.LevelWarn, "a", "refused", "peer", 1001)
		require.Equal(t, "level=WARN msg=refused peer=1001 omitted=1000\n", logged())
		time.Sleep(Interval)
		s.Log(slog.LevelWarn, "a", "refused", "peer", 1002)
		require.Equal(t, "level=WARN msg=refused peer=1002\n", logged())
	})
}

func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logged := newLog()
		var l Line
		for range 3 {
			l.Log(log, time.Minute, slog.LevelError, "failed", "err", "x")
		}
		require.Equal(t, "level=ERROR msg=failed err=x\n", logged())
		time.Sleep(time.Minute - 1)
		l.Log(log, time.Minute, slog.LevelError, "failed")
		require.Empty(t, logged())
		time.Sleep(1 * time.Nanosecond)
		l.Log(log, time.Minute, slog.LevelError, "failed again")
		require.Equal(t, "level=ERROR msg=\"failed again\" omitted=3\n", logged())
	})
}

// newLog returns a logger, and a function that returns the lines since its last call, without their times.
func newLog() (log *slog.Logger, logged func() string) {
	b := new(bytes.Buffer)
	log = slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	return log, func() string {
		defer b.Reset()
		return b.String()
	}
}
