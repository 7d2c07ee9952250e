package moqt

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// layouts are all data layouts.
var layouts = []DataLayout{DataLayout1, DataLayout2}

// TestQUICVarint has the examples of RFC 9000 §A.1.
func TestQUICVarint(t *testing.T) {
	for wire, want := range map[string]uint64{
		"c2197c5eff14e88c": 151288809941952652, "9d7f3e7d": 494878333, "7bbd": 15293, "25": 37,
	} {
		b := unhex(wire)
		require.Equal(t, b, quicVarint.append(nil, want))
		x, n, err := quicVarint.parse(append(b, 0xaa))
		require.NoError(t, err)
		require.Equal(t, want, x)
		require.Len(t, b, n)
		for i := range b {
			_, _, err := quicVarint.parse(b[:i])
			require.ErrorIs(t, err, ErrIncomplete)
		}
	}
	x, n, err := quicVarint.parse(unhex("4025"))
	require.NoError(t, err)
	require.Equal(t, []uint64{37, 2}, []uint64{x, uint64(n)})
	require.NoError(t, quicVarint.check(maxQUICVarint))
	require.Error(t, quicVarint.check(0, maxQUICVarint+1))
	require.NoError(t, vi64.check(math.MaxUint64))
}

// TestStreamTypesOfDraft16 tries the types of one and two bytes.
func TestStreamTypesOfDraft16(t *testing.T) {
	for typ := range uint64(1 << 14) {
		b := append(quicVarint.append(nil, typ), 1, 2, 3, 4)
		subgroup := typ >= 0x10 && typ < 0x40 && typ&0x10 != 0 && typ&6 != 6
		kind, err := ParseStreamKind(Draft16, b)
		require.Equal(t, subgroup || typ == 5, err == nil, "%#x", typ)
		require.Equal(t, subgroup, err == nil && kind == StreamSubgroup, "%#x", typ)
		require.Equal(t, typ == 5, kind == StreamFetch, "%#x", typ)
		_, err = ParseDatagramKind(Draft16, b)
		require.Equal(t, typ < 0x10 || typ >= 0x20 && typ < 0x30 && typ&2 == 0, err == nil, "%#x", typ)
	}
}

// TestTooLargeForDraft16 checks that values that draft-16 cannot express are not sent.
func TestTooLargeForDraft16(t *testing.T) {
	const large = maxQUICVarint + 1
	properties, err := NewProperties(KeyValuePair{Type: 0x40, Value: large})
	require.NoError(t, err)
	immutable, err := NewProperties(KeyValuePair{Type: PropertyImmutable, Bytes: properties})
	require.NoError(t, err)
	for _, p := range []Properties{properties, immutable} {
		e := NewSubgroupEncoder(DataLayout2, SubgroupHeader{HasProperties: true})
		_, err = e.AppendObject(nil, ObjectHeader{Properties: p})
		require.ErrorContains(t, err, "largest in this version")
	}
	e := NewSubgroupEncoder(DataLayout2, SubgroupHeader{})
	_, err = e.AppendObject(nil, ObjectHeader{ObjectID: large})
	require.ErrorContains(t, err, "must be at most")
	b, err := e.AppendObject(nil, ObjectHeader{ObjectID: large - 1})
	require.NoError(t, err)
	require.Equal(t, unhex("ffffffffffffffff 00 00"), b)
	_, err = AppendDatagramHeader(nil, Draft16, &ObjectDatagram{Location: Location{Group: large}})
	require.ErrorContains(t, err, "must be at most")
	f := NewFetchEncoder(Draft16, Ascending)
	_, err = f.AppendObject(nil, &FetchObject{Location: Location{Object: large}})
	require.ErrorContains(t, err, "must be at most")
	_, err = f.AppendObject(nil, &FetchObject{Kind: FetchKindUnknown, Location: Location{Group: large}})
	require.ErrorContains(t, err, "must be at most")
	// A range to the end of a group ends with its largest Object ID.
	b, err = f.AppendObject(nil, &FetchObject{Kind: FetchKindUnknown, Location: Location{1, math.MaxUint64}})
	require.NoError(t, err)
	require.Equal(t, unhex("410c 01 ffffffffffffffff"), b)
	items, err := parseFetch(NewFetchParser(Draft16, Ascending, 0), [][]byte{b})
	require.NoError(t, err)
	require.Equal(t, Location{1, math.MaxUint64}, items[0].Location)
	require.EqualValues(t, large-1, DataLayout2.MaxNumber())
}

// TestConvertProperties converts there and back.
func TestConvertProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyObjectProperties(t, maxQUICVarint)
		if rapid.Bool().Draw(t, "immutable") {
			var err error
			p, err = NewProperties(KeyValuePair{Type: PropertyImmutable, Bytes: p})
			require.NoError(t, err)
		}
		there, err := convertProperties(p, vi64, quicVarint)
		require.NoError(t, err)
		back, err := convertProperties(there, quicVarint, vi64)
		require.NoError(t, err)
		require.True(t, bytes.Equal(p, back))
	})
	_, err := convertProperties(unhex("0b 02 0440"), quicVarint, vi64)
	requireMalformed(t, err)
	_, err = convertProperties(unhex("04 40"), quicVarint, vi64)
	require.ErrorIs(t, err, ErrIncomplete)
	_, err = convertProperties(unhex("0d 80010000"), quicVarint, vi64)
	requireCode(t, SessionProtocolViolation, err)
}
