package video

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
)

func digestOf(b []byte) *Digest {
	d := new(Digest)
	d.Write(b)
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
	require.NotEqual(t, appendPayload(nil, 1, published, 100)[payloadHead:],
		appendPayload(nil, 2, published, 100)[payloadHead:])
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
			require.ErrorIs(t, err, ErrCorrupt, "bit %d of byte %d", bit, n)
		}
	}
	_, _, err := digestOf(append(bytes.Clone(b), 0)).mock()
	require.ErrorIs(t, err, ErrCorrupt)
}

// The pieces of a payload do not change its digest, and other data is not a payload.
func FuzzDigest(f *testing.F) {
	m := Mock{}.WithDefaults()
	f.Add(appendPayload(nil, 50, time.Unix(1, 2), payloadMinimum), uint8(1))
	f.Add(appendPayload(nil, 1, time.Unix(0, 0), 300), uint8(7))
	f.Add([]byte("no payload"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		defer testlimit.Start(t, len(b), 1000)()
		pieces := new(Digest)
		for rest := b; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			pieces.Write(rest[:n])
			rest = rest[n:]
		}
		whole := digestOf(b)
		require.Equal(t, whole, pieces)
		n, published, err := whole.mock()
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, len(b), payloadMinimum)
		_, err = m.Verify(moqt.Location{Group: n / 50, Object: n % 50}, whole)
		require.NoError(t, err)
		_, err = m.Verify(moqt.Location{Group: n/50 + 1, Object: n % 50}, whole)
		require.ErrorIs(t, err, ErrElsewhere)
		_ = published
	})
}
