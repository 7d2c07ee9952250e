package moqt

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sluice/internal/testlimit"
)

// TestTranslateSubgroup translates streams there and back, whatever pieces they come in.
func TestTranslateSubgroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := SubgroupHeader{HasProperties: rapid.Bool().Draw(t, "has properties")}
		encoders := []SubgroupEncoder{NewSubgroupEncoder(layouts[0], h), NewSubgroupEncoder(layouts[1], h)}
		wires, id := make([][]byte, 2), uint64(0)
		for range rapid.IntRange(0, 5).Draw(t, "objects") {
			o := ObjectHeader{ObjectID: id}
			if h.HasProperties {
				o.Properties = anyObjectProperties(t, maxQUICVarint)
			}
			if rapid.Bool().Draw(t, "has payload") {
				o.PayloadLength = rapid.Uint64Range(1, 40_000).Draw(t, "payload length")
			}
			for i := range encoders {
				b, err := encoders[i].AppendObject(wires[i], o)
				require.NoError(t, err)
				wires[i] = append(b, bytes.Repeat([]byte{byte(id)}, int(o.PayloadLength))...)
			}
			id += 1 + rapid.Uint64Range(0, 1<<50).Draw(t, "gap")
		}
		for i, from := range layouts {
			for _, stream := range []io.Reader{
				bytes.NewReader(wires[i]), iotest.HalfReader(bytes.NewReader(wires[i])),
				iotest.OneByteReader(bytes.NewReader(wires[i])), iotest.DataErrReader(bytes.NewReader(wires[i])),
			} {
				got, err := io.ReadAll(TranslateSubgroup(stream, from, layouts[1-i], h))
				require.NoError(t, err)
				require.Equal(t, string(wires[1-i]), string(got))
			}
		}
	})
}

// TestTranslationThatEndsEarly checks that all complete bytes come before the error.
func TestTranslationThatEndsEarly(t *testing.T) {
	encoder := NewSubgroupEncoder(DataLayout2, SubgroupHeader{})
	b, err := encoder.AppendObject(nil, ObjectHeader{ObjectID: 100, PayloadLength: 100})
	require.NoError(t, err)
	require.Len(t, b, 4)
	translate := func(stream io.Reader) (int, error) {
		got, err := io.ReadAll(TranslateSubgroup(stream, DataLayout2, DataLayout1, SubgroupHeader{}))
		return len(got), err
	}
	var violation *ProtocolError
	for cut, want := range map[int]int{1: 0, 3: 0, 4: 2, 9: 7} {
		stream := append(b, make([]byte, 100)...)[:cut]
		n, err := translate(bytes.NewReader(stream))
		require.ErrorAs(t, err, &violation, "FIN after %d bytes", cut)
		require.Equal(t, want, n)
		reset := errors.New("reset")
		n, err = translate(io.MultiReader(bytes.NewReader(stream), iotest.ErrReader(reset)))
		require.ErrorIs(t, err, reset)
		require.Equal(t, want, n)
	}
	n, err := translate(bytes.NewReader(append(append(b, make([]byte, 100)...), 0, 0, 9))) // an unknown status
	require.ErrorAs(t, err, &violation)
	require.Equal(t, 102, n)

	encoder = NewSubgroupEncoder(DataLayout1, SubgroupHeader{})
	large, err := encoder.AppendObject(nil, ObjectHeader{ObjectID: math.MaxUint64})
	require.NoError(t, err)
	_, err = io.ReadAll(TranslateSubgroup(bytes.NewReader(large), DataLayout1, DataLayout2, SubgroupHeader{}))
	require.Error(t, err, "draft-16 has no such id")
	require.False(t, errors.As(err, &violation), "and the publisher has done nothing wrong")
}

// TestIdleTranslation checks that a stream whose bytes have been read holds no memory: the next bytes are read into the
// memory of the caller.
func TestIdleTranslation(t *testing.T) {
	encoder := NewSubgroupEncoder(DataLayout2, SubgroupHeader{})
	b, err := encoder.AppendObject(nil, ObjectHeader{ObjectID: 100, PayloadLength: 1000})
	require.NoError(t, err)
	b = append(b, make([]byte, 100)...)
	var r *subgroupTranslator
	var mine []byte
	stream := readerFunc(func(p []byte) (n int, err error) {
		require.Nil(t, r.buffer)
		require.Nil(t, r.out)
		require.Same(t, &mine[0], &p[0])
		n = copy(p[:1], b) // so the object's header comes in pieces
		b = b[n:]
		return n, nil
	})
	r = TranslateSubgroup(stream, DataLayout2, DataLayout1, SubgroupHeader{}).(*subgroupTranslator)
	for len(b) > 0 {
		mine = make([]byte, 100)
		_, err := r.Read(mine)
		require.NoError(t, err)
	}
	require.Empty(t, r.out)
	require.Nil(t, r.buffer)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzTranslateSubgroup checks that pieces of any size are translated to the same bytes, and that nothing changes if
// these are translated back and again.
func FuzzTranslateSubgroup(f *testing.F) {
	for _, tc := range subgroupStreams {
		f.Add(unhex(tc.wire), tc.header.HasProperties)
	}
	for _, tc := range subgroupViolations {
		f.Add(unhex(tc.wire), tc.properties)
	}
	f.Fuzz(func(t *testing.T, stream []byte, properties bool) {
		defer testlimit.Start(t, len(stream), 1000)()
		for i, from := range layouts {
			translate := func(r io.Reader, from, to DataLayout) ([]byte, error) {
				return io.ReadAll(TranslateSubgroup(r, from, to, SubgroupHeader{HasProperties: properties, GroupID: 1}))
			}
			to := layouts[1-i]
			whole, err1 := translate(bytes.NewReader(stream), from, to)
			pieces, err2 := translate(iotest.OneByteReader(bytes.NewReader(stream)), from, to)
			require.Equal(t, whole, pieces)
			require.Equal(t, err1, err2)
			if err1 != nil {
				continue
			}
			back, err := translate(bytes.NewReader(whole), to, from)
			require.NoError(t, err)
			again, err := translate(bytes.NewReader(back), from, to)
			require.NoError(t, err)
			require.Equal(t, whole, again)
		}
	})
}
