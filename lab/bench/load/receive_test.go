package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/lab/bench/video"
	"sluice/moqt"
)

// stream returns subgroup 0 of the first group, as it is on the wire after the header.
func stream(t testing.TB, m video.Mock, frames uint64) []byte {
	h := moqt.SubgroupHeader{}
	encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
	var b []byte
	for n := range frames {
		payload := m.Payload(n, time.Unix(0, int64(n)))
		var err error
		b, err = encoder.AppendObject(b, moqt.ObjectHeader{ObjectID: m.Frame(n).Object,
			PayloadLength: uint64(len(payload))})
		require.NoError(t, err)
		b = append(b, payload...)
	}
	return b
}

func TestSubgroupReader(t *testing.T) {
	m := video.Mock{Rate: 2e4}.WithDefaults()
	b := stream(t, m, 5)
	for _, piece := range []int{1, 2, 3, 19, 64, 1000, len(b)} {
		got := 0
		s := subgroupReader{parser: moqt.NewSubgroupParser(moqt.DataLayout1, moqt.SubgroupHeader{}, 0),
			object: func(o object) {
				published, err := m.Verify(o.Location, &o.digest)
				require.NoError(t, err)
				require.EqualValues(t, got, o.Object)
				require.EqualValues(t, got, published.UnixNano())
				require.Equal(t, m.Size(uint64(got)), o.digest.Size())
				got++
			}}
		for rest := b; len(rest) > 0; {
			n := min(piece, len(rest))
			require.NoError(t, s.read(rest[:n]))
			rest = rest[n:]
		}
		require.Equal(t, 5, got, "in pieces of %d bytes", piece)
	}
}

// Whatever arrives on a stream, an object counts only if it was published in its place.
func FuzzSubgroupReader(f *testing.F) {
	m := video.Mock{Rate: 2e4}.WithDefaults()
	f.Add(stream(f, m, 3), uint16(10))
	f.Add([]byte{0, 0, 0, 1, 5, 1}, uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		defer testlimit.Start(t, len(b), 1000)()
		r := newReceiver(m, false)
		s := subgroupReader{parser: moqt.NewSubgroupParser(moqt.DataLayout1, moqt.SubgroupHeader{}, 0), object: r.take}
		at := min(int(cut), len(b))
		if s.read(b[:at]) == nil {
			_ = s.read(b[at:]) // it fails on other data
		}
		got := r.result()
		require.LessOrEqual(t, got.Bytes, uint64(len(b)))
		require.Len(t, r.seen, int(got.Objects))
	})
}

func TestReceiverCounts(t *testing.T) {
	m := video.Mock{}.WithDefaults()
	r := newReceiver(m, true)
	take := func(at moqt.Location, n uint64) {
		o := object{Location: at}
		o.digest.Write(m.Payload(n, time.Unix(0, 5)))
		r.take(o)
	}
	take(moqt.Location{}, 0)
	take(moqt.Location{}, 0)
	take(moqt.Location{Object: 1}, 2) // elsewhere
	take(moqt.Location{Group: 1, Object: 3}, 53)
	got := r.result()
	require.Equal(t, [4]uint64{2, uint64(m.Size(0) + m.Size(53)), 1, 1},
		[4]uint64{got.Objects, got.Bytes, got.Corrupt, got.Duplicates})
	require.Len(t, got.Arrivals, 2)
	require.Equal(t, video.Arrival{Group: 1, Object: 3, Published: 5, Arrived: got.Arrivals[1].Arrived,
		Bytes: m.Size(53)}, got.Arrivals[1])
}
