package hub

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/media"
	"sluice/moqt"
	"sluice/track"
	"sluice/transport/transporttest"
)

// TestOmission logs from which object on a stream has ended early, by what the subscriber has acknowledged.
func TestOmission(t *testing.T) {
	var out bytes.Buffer
	h := aloneHub(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	conn, _ := transporttest.Pipe(transporttest.PipeConfig{})
	d := &downstream{hub: h, peer: &Peer{Conn: conn}}
	d.delivery = delivery{sub: d, forward: true, selection: newSelection(nil, moqt.DataLayout1)}
	d.delivery.streams = newStreams(nil, nil)
	objects := []moqt.ObjectHeader{{}, {ObjectID: 1}, {ObjectID: 2}}
	publishInto(t, h.data, moqt.SubgroupHeader{GroupID: 7, FirstObject: true}, objects)
	seg := h.data.Segments(7)[0]
	first, _ := seg.Log.Seek(0)
	second, _ := seg.Log.Seek(1)
	end := seg.Log.End()
	from := func(o track.Object, arrived int64, why media.Outcome) string {
		out.Reset()
		d.delivery.logOmission(seg, o, media.Result{
			Arrived: arrived, Sent: end, Severed: end, Outcome: why, Code: uint64(moqt.ResetCancelled),
		})
		return out.String()
	}
	for arrived, object := range map[int64]int{first.IDEnd: 0, second.Start - 1: 0, second.Start: 1, end: 3} {
		sent := end - []int64{first.Start, second.Start, 0, end}[object]
		want := fmt.Sprintf("objects.group=7 objects.subgroup=0 objects.from=%d objects.sent=%d\n", object, sent)
		require.Contains(t, from(first, arrived, media.Dropped), want)
		require.Contains(t, from(second, arrived, media.Dropped), want, "the fast path had opened the stream")
	}
	require.Contains(t, from(first, first.IDEnd, media.Late), "why=late")
	require.Contains(t, from(first, first.IDEnd, media.Severed), "may come twice")
	require.Empty(t, from(first, first.IDEnd, media.Delivered))
	require.Empty(t, from(first, first.IDEnd, media.Canceled), "the subscription goes on")
	d.delivery.streams.finish(&moqt.PublishDone{})
	require.Contains(t, from(first, first.IDEnd, media.Canceled), "why=canceled")
	d.delivery.streams.finish(nil)
	refused := func(why media.Outcome) string {
		out.Reset()
		d.delivery.streams.ended(&cursor{segment: seg}, media.Result{ID: -1, Outcome: why})
		d.delivery.send(seg, 1)
		d.delivery.streams.forget()
		return out.String()
	}
	for _, why := range []media.Outcome{media.Dropped, media.ObjectTimedOut} {
		require.Regexp(t, "why=dropped .*objects.from=1 ", refused(why), "another stream of the subgroup has ended")
	}
	require.Empty(t, refused(media.Stopped), "the subscriber's decision")
	seg.Log.Discard(end)
	require.Contains(t, from(first, second.Start, media.Dropped), "objects.from=0 ", "which one is forgotten")
	require.Contains(t, from(second, first.IDEnd, media.Dropped), "objects.from=0 ", "the segment's first one")
}
