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

// TestStreamsOfDraft16 has headers of draft-16 §10.4.2 and §10.4.4 that later versions write in another way.
func TestStreamsOfDraft16(t *testing.T) {
	h := SubgroupHeader{
		TrackAlias: 300, GroupID: 20_000, SubgroupIDMode: SubgroupIDPresent, SubgroupID: 70,
		Priority: 255, HasProperties: true, EndOfGroup: true, FirstObject: true,
	}
	want := unhex("1d 412c 80004e20 4046 ff")
	require.Equal(t, want, AppendSubgroupHeader(nil, Draft16, h))
	got, n, err := ParseSubgroupHeader(Draft16, want)
	require.NoError(t, err)
	require.Len(t, want, n)
	h.FirstObject = false // cannot be expressed
	require.Equal(t, h, got)

	want = unhex("05 412c")
	require.Equal(t, want, AppendFetchHeader(nil, Draft16, FetchHeader{300}))
	fetch, _, err := ParseFetchHeader(Draft16, want)
	require.NoError(t, err)
	require.EqualValues(t, 300, fetch.RequestID)
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

// TestSubgroupOfDraft16 has the objects of a stream, which are the same in both layouts.
func TestSubgroupOfDraft16(t *testing.T) {
	objects := []ObjectHeader{
		{ObjectID: 100, Properties: unhex("3e05"), PayloadLength: 2},
		// Type 0x0b has the pair 4: 100, type 0x0d the bytes 80 64.
		{ObjectID: 101, Properties: unhex("0b02 0464 02028064"), PayloadLength: 0},
		{ObjectID: 102, Status: StatusEndOfGroup},
	}
	wires := map[DataLayout]string{
		DataLayout1: "64 02 3e05 02 6162" + "00 08 0b020464 02028064 00 00" + "00 00 00 03",
		DataLayout2: "4064 02 3e05 02 6162" + "00 09 0b03044064 02028064 00 00" + "00 00 00 03",
	}
	for l, wire := range wires {
		header := SubgroupHeader{HasProperties: true, GroupID: 9}
		e := NewSubgroupEncoder(l, header)
		var b []byte
		for _, o := range objects {
			var err error
			b, err = e.AppendObject(b, o)
			require.NoError(t, err)
			b = append(b, "ab"[:o.PayloadLength]...)
		}
		require.Equal(t, unhex(wire), b)
		for size := 1; size <= len(b); size++ {
			got, err := parseSubgroup(NewSubgroupParser(l, header, 0), chop(b, size))
			require.NoError(t, err)
			require.Len(t, got, len(objects))
			for i, o := range got {
				if len(o.Properties) == 0 {
					o.Properties = nil
				}
				require.Equal(t, objects[i], o.ObjectHeader)
			}
		}
	}
}

// TestFetchOfDraft16 has a response, in which all ids are absolute.
func TestFetchOfDraft16(t *testing.T) {
	items := []FetchObject{
		{Location: Location{5, 7}, Priority: 128, PayloadLength: 1},
		{Location: Location{5, 9}, Priority: 128, Properties: unhex("0464")},
		{Kind: FetchKindNonExistent, Location: Location{5, 100}},
		{Location: Location{70, 101}, SubgroupID: 3, Priority: 1},
		{Location: Location{71, 4}, Datagram: true, Priority: 1},
		{Kind: FetchKindUnknown, Location: Location{72, 0}},
	}
	want := unhex("1c 05 07 80 01 61" + "24 09 03 044064 00" + "408c 05 4064" + "1b 4046 03 01 00" +
		"404c 4047 04 00" + "410c 4048 00")
	e := NewFetchEncoder(Draft16, Ascending)
	var b []byte
	for _, o := range items {
		var err error
		b, err = e.AppendObject(b, &o)
		require.NoError(t, err)
		b = append(b, "a"[:o.PayloadLength]...)
	}
	require.Equal(t, want, b)
	for size := 1; size <= len(b); size++ {
		got, err := parseFetch(NewFetchParser(Draft16, Ascending, 0), chop(b, size))
		require.NoError(t, err)
		for i, o := range got {
			if len(o.Properties) == 0 {
				o.Properties = nil
			}
			require.Equal(t, items[i], o.FetchObject)
		}
	}
	_, err := parseFetch(NewFetchParser(Draft16, Ascending, 0), [][]byte{unhex("420c 01 02")})
	requireCode(t, SessionProtocolViolation, err) // End of Timed-Out Range
}

// TestDatagramOfDraft16 has a datagram in both layouts.
func TestDatagramOfDraft16(t *testing.T) {
	o := ObjectDatagram{
		TrackAlias: 300, Location: Location{70, 9}, Priority: 200, Properties: unhex("0464"), Payload: []byte("abc"),
	}
	for v, wire := range map[Version]string{
		Draft16: "01 412c 4046 09 c8 03 044064 616263", Draft18: "01 812c 46 09 c8 02 0464 616263",
	} {
		b, err := AppendDatagramHeader(nil, v, &o)
		require.NoError(t, err)
		require.Equal(t, unhex(wire), append(b, o.Payload...))
		got, err := ParseObjectDatagram(v, unhex(wire))
		require.NoError(t, err)
		require.Equal(t, o, got)
	}
	// Wrong properties end the track, and its alias is known.
	got, err := ParseObjectDatagram(Draft16, unhex("01 05 06 07 08 02 0440"))
	requireMalformed(t, err)
	require.EqualValues(t, 5, got.TrackAlias)
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
