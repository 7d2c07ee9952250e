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
		var b bytes.Buffer
		s := NewSparse(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})))
		logged := func() string {
			defer b.Reset()
			return b.String()
		}
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
