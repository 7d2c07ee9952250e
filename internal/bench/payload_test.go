package bench

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func digestOf(b []byte) *digest {
	d := new(digest)
	d.write(b)
	return d
}

func TestPayload(t *testing.T) {
	published := time.Unix(0, 1_700_000_000_123_456_789)
	for _, size := range []int{payloadMinimum, payloadMinimum + 1, 100, 9259, maxPayload} {
		b := appendPayload([]byte("before"), 7, published, size)[len("before"):]
		require.Len(t, b, size)
		n, at, err := digestOf(b).mock()
		require.NoError(t, err)
		require.EqualValues(t, 7, n)
		require.True(t, at.Equal(published))
	}
	require.NotEqual(t, appendPayload(nil, 1, published, 100)[payloadHead:], appendPayload(nil, 2, published, 100)[payloadHead:])
}

func TestDamagedPayloadIsFound(t *testing.T) {
	b := appendPayload(nil, 7, time.Now(), 64)
	for n := range b {
		_, _, err := digestOf(b[:n]).mock()
		require.Error(t, err, "cut after %d bytes", n)
		for bit := range 8 {
			damaged := bytes.Clone(b)
			damaged[n] ^= 1 << bit
			_, _, err := digestOf(damaged).mock()
			require.ErrorIs(t, err, errPayloadCorrupt, "bit %d of byte %d", bit, n)
		}
	}
	_, _, err := digestOf(append(bytes.Clone(b), 0)).mock()
	require.ErrorIs(t, err, errPayloadCorrupt)
}

// The pieces in which a payload comes do not matter, and what is no payload is not taken for one.
func FuzzDigest(f *testing.F) {
	m := Mock{}.withDefaults()
	f.Add(appendPayload(nil, 50, time.Unix(1, 2), payloadMinimum), uint8(1))
	f.Add(appendPayload(nil, 1, time.Unix(0, 0), 300), uint8(7))
	f.Add([]byte("no payload"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		pieces := new(digest)
		for rest := b; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			pieces.write(rest[:n])
			rest = rest[n:]
		}
		whole := digestOf(b)
		require.Equal(t, whole, pieces)
		n, published, err := whole.mock()
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, len(b), payloadMinimum)
		_, err = m.verify(moqt.Location{Group: n / 50, Object: n % 50}, whole)
		require.NoError(t, err)
		_, err = m.verify(moqt.Location{Group: n/50 + 1, Object: n % 50}, whole)
		require.ErrorIs(t, err, errElsewhere)
		_ = published
	})
}

// stream is subgroup 0 of the first group of some media, as it is on the wire after the header.
func stream(t testing.TB, m media, frames uint64) []byte {
	h := moqt.SubgroupHeader{}
	encoder := moqt.NewSubgroupEncoder(h)
	var b []byte
	for n := range frames {
		payload := m.payload(n, time.Unix(0, int64(n)))
		var err error
		b, err = encoder.AppendObject(b, moqt.ObjectHeader{ObjectID: m.frame(n).at.Object, PayloadLength: uint64(len(payload))})
		require.NoError(t, err)
		b = append(b, payload...)
	}
	return b
}

func TestSubgroupReader(t *testing.T) {
	m := Mock{Rate: 2e4}.withDefaults()
	b := stream(t, m, 5)
	for _, piece := range []int{1, 2, 3, 19, 64, 1000, len(b)} {
		got := 0
		s := subgroupReader{parser: moqt.NewSubgroupParser(moqt.SubgroupHeader{}, 0), object: func(at moqt.Location, d *digest) {
			published, err := m.verify(at, d)
			require.NoError(t, err)
			require.EqualValues(t, got, at.Object)
			require.EqualValues(t, got, published.UnixNano())
			require.Equal(t, m.size(uint64(got)), d.size)
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

// Whatever comes on a stream, an object is counted only if it is what was published there.
func FuzzSubgroupReader(f *testing.F) {
	m := Mock{Rate: 2e4}.withDefaults()
	f.Add(stream(f, m, 3), uint16(10))
	f.Add([]byte{0, 0, 0, 1, 5, 1}, uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		r := &receiver{media: m, seen: make(map[moqt.Location]bool)}
		s := subgroupReader{parser: moqt.NewSubgroupParser(moqt.SubgroupHeader{}, 0), object: r.take}
		at := min(int(cut), len(b))
		if s.read(b[:at]) == nil {
			_ = s.read(b[at:]) // what is no stream fails
		}
		got := r.result()
		require.LessOrEqual(t, got.Bytes, uint64(len(b)))
		require.Len(t, r.seen, int(got.Objects))
	})
}

func TestReceiverCounts(t *testing.T) {
	m := Mock{}.withDefaults()
	r := &receiver{media: m, record: true, seen: make(map[moqt.Location]bool)}
	payload := func(n uint64) *digest { return digestOf(m.payload(n, time.Unix(0, 5))) }
	r.take(moqt.Location{}, payload(0))
	r.take(moqt.Location{}, payload(0))
	r.take(moqt.Location{Object: 1}, payload(2)) // elsewhere
	r.take(moqt.Location{Group: 1, Object: 3}, payload(53))
	got := r.result()
	require.Equal(t, [4]uint64{2, uint64(m.size(0) + m.size(53)), 1, 1}, [4]uint64{got.Objects, got.Bytes, got.Corrupt, got.Duplicates})
	require.Len(t, got.Arrivals, 2)
	require.Equal(t, Arrival{Group: 1, Object: 3, Published: 5, Arrived: got.Arrivals[1].Arrived, Bytes: m.size(53)}, got.Arrivals[1])
}

func TestMock(t *testing.T) {
	m := Mock{}.withDefaults()
	require.NoError(t, m.validate())
	var bytes int
	for n := range uint64(100) { // two groups
		bytes += m.size(n)
		require.Len(t, m.payload(n, time.Now()), m.size(n))
	}
	require.InEpsilon(t, 2e6*4, bytes*8, .001, "4 s of 2 Mbit/s")
	require.InEpsilon(t, 5, float64(m.size(50))/float64(m.size(51)), .001)
	require.Equal(t, frame{at: moqt.Location{Group: 1, Object: 2}, due: 52 * 40 * time.Millisecond}, m.frame(52))

	m.Layers = true
	var got []int
	for n := range uint64(9) {
		got = append(got, m.frame(n).layer)
	}
	require.Equal(t, []int{layerKey, layerTop, layerMiddle, layerTop, layerBase, layerTop, layerMiddle, layerTop, layerBase}, got)
	for n := range uint64(100) {
		on, depends := m.dependsOn(n)
		require.Equal(t, n%50 != 0, depends)
		if depends {
			require.Less(t, on, n)
			require.Equal(t, m.frame(n).at.Group, m.frame(on).at.Group)
			require.LessOrEqual(t, m.frame(on).layer, m.frame(n).layer)
		}
	}
	for _, bad := range []Mock{{Rate: -1}, {FrameRate: 1e6}, {Group: -1}, {Key: .5}, {Rate: 100}, {Rate: 1e9}} {
		require.Error(t, bad.withDefaults().validate(), "%+v", bad)
	}
}

func TestClip(t *testing.T) {
	c, err := openClip("../../testdata/clip.mp4")
	require.NoError(t, err)
	require.Greater(t, c.groups, uint64(1))
	require.Equal(t, moqt.Location{}, c.frame(0).at)
	count := uint64(len(c.frames))
	again := c.frame(count)
	require.Equal(t, moqt.Location{Group: c.groups}, again.at, "the second round continues")
	require.Greater(t, again.due, c.frame(count-1).due)
	for n := range count {
		d := digestOf(c.payload(n+count, time.Time{}))
		_, err := c.verify(c.frame(n+count).at, d)
		require.NoError(t, err)
		_, err = c.verify(c.frame(n+1).at, d)
		require.ErrorIs(t, err, errNotOfClip)
	}
	_, err = openClip("payload_test.go")
	require.ErrorContains(t, err, "payload_test.go: ")
	_, err = openClip(t.TempDir() + "/none")
	require.ErrorIs(t, err, os.ErrNotExist)
}
