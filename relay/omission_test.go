package relay

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/media"
	"sluice/moqt"
)

// TestOmission logs from which object on a stream has ended early, by what the subscriber has acknowledged.
func TestOmission(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	onBench(t, Config{Logger: log}, func(b *bench) {
		src := new(source)
		_, err := src.offer(b.connect(), moqt.Parameters{})
		require.NoError(t, err)
		k, _ := b.connect().mustSubscribe(moqt.Parameters{})
		src.group(7, 3)
		k.take()
		var d *downstream
		b.relay.directory.eachHub(func(h *hub) {
			for d = range h.subscribers.all {
			}
		})
		seg := d.hub.data.Segments(7)[0]
		first, _ := seg.Log.Seek(0)
		second, _ := seg.Log.Seek(1)
		from := func(arrived int64, why media.Outcome) string {
			out.Reset()
			d.delivery.logOmission(seg, first, 9, media.Result{
				Arrived: arrived + 9, Size: seg.Log.End() - first.IDEnd + 9, Outcome: why,
			})
			return out.String()
		}
		for arrived, object := range map[int64]int{
			-3: 0, 0: 0, second.Start - first.IDEnd - 1: 0, second.Start - first.IDEnd: 1,
			seg.Log.End() - first.IDEnd: 3,
		} {
			start := []int64{first.IDEnd, second.Start, 0, seg.Log.End()}[object]
			if object == 0 && arrived > 0 {
				start = first.Start
			}
			sent := seg.Log.End() - start
			want := fmt.Sprintf("objects.group=7 objects.subgroup=0 objects.from=%d objects.sent=%d\n", object, sent)
			require.Contains(t, from(arrived, media.Dropped), want)
		}
		require.Contains(t, from(0, media.Late), "why=late")
		require.Contains(t, from(0, media.Severed), "may come twice")
		require.Empty(t, from(0, media.Delivered))
		seg.Log.Discard(seg.Log.End())
		require.Contains(t, from(second.Start-first.IDEnd, media.Dropped), "objects.from=0 ", "which one is forgotten")
	})
}
