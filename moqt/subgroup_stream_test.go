package moqt

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

func TestSubgroupHeader(t *testing.T) {
	for _, tc := range []struct {
		version Version
		header  SubgroupHeader
		wire    string
	}{
		{Draft18, SubgroupHeader{TrackAlias: 2}, "10 02 00 00"},
		// The examples of draft §11.6.
		{Draft18, SubgroupHeader{TrackAlias: 2, SubgroupIDMode: SubgroupIDPresent}, "14 02 00 00 00"},
		{Draft18, SubgroupHeader{
			TrackAlias: 2, SubgroupIDMode: SubgroupIDPresent, HasProperties: true, DefaultPriority: true,
		}, "35 02 00 00"},
		{Draft18, SubgroupHeader{SubgroupIDMode: SubgroupIDFirstObject, Priority: 200}, "12 00 00 c8"},
		{Draft18, SubgroupHeader{EndOfGroup: true, DefaultPriority: true}, "38 00 00"},
		{Draft18, SubgroupHeader{FirstObject: true, DefaultPriority: true}, "70 00 00"},
		{Draft18, SubgroupHeader{
			TrackAlias: 300, GroupID: 20_000, SubgroupIDMode: SubgroupIDPresent, SubgroupID: 7,
			Priority: 255, HasProperties: true, EndOfGroup: true, FirstObject: true,
		}, "5d 812c c04e20 07 ff"},
		{Draft16, SubgroupHeader{ // §10.4.2
			TrackAlias: 300, GroupID: 20_000, SubgroupIDMode: SubgroupIDPresent, SubgroupID: 70,
			Priority: 255, HasProperties: true, EndOfGroup: true,
		}, "1d 412c 80004e20 4046 ff"},
	} {
		t.Run(tc.wire, func(t *testing.T) {
			want := unhex(tc.wire)
			require.Equal(t, want, AppendSubgroupHeader(nil, tc.version, tc.header))
			h, n, err := ParseSubgroupHeader(tc.version, append(want, 0xaa))
			require.NoError(t, err)
			require.Equal(t, tc.header, h)
			require.Len(t, want, n)
			for i := range want {
				_, _, err := ParseSubgroupHeader(tc.version, want[:i])
				require.ErrorIs(t, err, ErrIncomplete, "first %d bytes", i)
			}
		})
	}
}

// TestSubgroupHeaderTypes tries all types of one byte and some longer ones (draft §11.4.2).
func TestSubgroupHeaderTypes(t *testing.T) {
	for typ := range uint64(0x200) {
		valid := false
		for _, base := range []uint64{0x10, 0x18, 0x30, 0x38, 0x50, 0x58, 0x70, 0x78} {
			valid = valid || base <= typ && typ <= base+5
		}
		b := append(AppendVarint(nil, typ), 1, 2, 3, 4)
		h, _, err := ParseSubgroupHeader(Draft18, b)
		kind, kindErr := ParseStreamKind(Draft18, b)
		if !valid {
			requireCode(t, SessionProtocolViolation, err)
			require.Equal(t, typ == 0x05, kindErr == nil, "%#x", typ)
			require.Equal(t, typ == 0x05, kind == StreamFetch, "%#x", typ)
			continue
		}
		require.NoError(t, err, "%#x", typ)
		require.NoError(t, kindErr)
		require.Equal(t, StreamSubgroup, kind)
		again := AppendSubgroupHeader(nil, Draft18, h)
		require.Equal(t, b[:len(again)], again)
	}
}

func TestLongSubgroupHeader(t *testing.T) {
	long := func(x byte) string { return fmt.Sprintf("ff00000000000000%02x", x) }
	b := unhex(long(0x14) + long(1) + long(2) + long(3) + "04")
	h, n, err := ParseSubgroupHeader(Draft18, b)
	require.NoError(t, err)
	require.Equal(t, len(b), n)
	require.Equal(t, SubgroupHeader{
		TrackAlias: 1, GroupID: 2, SubgroupIDMode: SubgroupIDPresent, SubgroupID: 3, Priority: 4,
	}, h)
}

func FuzzSubgroupHeader(f *testing.F) {
	f.Add(unhex("5d 812c c04e20 07 ff"))
	f.Add(unhex("30 01 02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testlimit.Start(t, len(b), 1000)()
		for _, v := range []Version{Draft16, Draft18} {
			h, n, err := ParseSubgroupHeader(v, b)
			if err != nil {
				continue
			}
			again := AppendSubgroupHeader(nil, v, h)
			require.LessOrEqual(t, len(again), n)
			h2, _, err := ParseSubgroupHeader(v, again)
			require.NoError(t, err)
			require.Equal(t, h, h2)
		}
	})
}

// subgroupStreams are streams after their headers, and their objects if the first byte has offset 100.
var subgroupStreams = []struct {
	name    string
	layout  DataLayout
	header  SubgroupHeader
	wire    string
	objects []SubgroupObject
}{
	{
		name:   "example of draft §11.6",
		layout: DataLayout1,
		header: SubgroupHeader{},
		wire:   "00 04 61626364" + "00 04 65666768",
		objects: []SubgroupObject{
			{ObjectHeader: ObjectHeader{ObjectID: 0, PayloadLength: 4}, Start: 100, IDEnd: 101, PayloadStart: 102,
				End: 106},
			{ObjectHeader: ObjectHeader{ObjectID: 1, PayloadLength: 4}, Start: 106, IDEnd: 107, PayloadStart: 108,
				End: 112},
		},
	},
	{
		name:   "gaps, an empty object, end of group",
		layout: DataLayout1,
		header: SubgroupHeader{},
		wire:   "812c 00 00" + "03 01 78" + "00 00 03",
		objects: []SubgroupObject{
			{ObjectHeader: ObjectHeader{ObjectID: 300}, Start: 100, IDEnd: 102, PayloadStart: 104, End: 104},
			{ObjectHeader: ObjectHeader{ObjectID: 304, PayloadLength: 1}, Start: 104, IDEnd: 105, PayloadStart: 106,
				End: 107},
			{ObjectHeader: ObjectHeader{ObjectID: 305, Status: StatusEndOfGroup}, Start: 107, IDEnd: 108,
				PayloadStart: 110, End: 110},
		},
	},
	{
		name:   "properties",
		layout: DataLayout1,
		header: SubgroupHeader{HasProperties: true, GroupID: 9},
		// The second pair of the third object is of type 13 and has one byte.
		wire: "05 02 3e05 02 6162" + "00 00 01 63" + "00 05 0405090161 00 00" + "00 00 00 04",
		objects: []SubgroupObject{
			{
				ObjectHeader: ObjectHeader{ObjectID: 5, Properties: Properties{0x3e, 5}, PayloadLength: 2},
				Start:        100, IDEnd: 101, PropertiesStart: 102, PayloadStart: 105, End: 107,
			},
			{
				ObjectHeader: ObjectHeader{ObjectID: 6, PayloadLength: 1},
				Start:        107, IDEnd: 108, PropertiesStart: 109, PayloadStart: 110, End: 111,
			},
			{
				ObjectHeader: ObjectHeader{ObjectID: 7, Properties: unhex("0405090161")},
				Start:        111, IDEnd: 112, PropertiesStart: 113, PayloadStart: 120, End: 120,
			},
			{
				ObjectHeader: ObjectHeader{ObjectID: 8, Status: StatusEndOfTrack},
				Start:        120, IDEnd: 121, PropertiesStart: 122, PayloadStart: 124, End: 124,
			},
		},
	},
	{
		name:   "properties in draft-16",
		layout: DataLayout2,
		header: SubgroupHeader{HasProperties: true, GroupID: 9},
		// Type 0x0b has the pair 4: 100, type 0x0d the bytes 80 64.
		wire: "4064 02 3e05 02 6162" + "00 09 0b03044064 02028064 00 00",
		objects: []SubgroupObject{
			{
				ObjectHeader: ObjectHeader{ObjectID: 100, Properties: unhex("3e05"), PayloadLength: 2},
				Start:        100, IDEnd: 102, PropertiesStart: 103, PayloadStart: 106, End: 108,
			},
			{
				ObjectHeader: ObjectHeader{ObjectID: 101, Properties: unhex("0b02 0464 02028064")},
				Start:        108, IDEnd: 109, PropertiesStart: 110, PayloadStart: 121, End: 121,
			},
		},
	},
}

// parseSubgroup feeds the chunks to a parser and returns copies of the objects, and the first error.
func parseSubgroup(p *SubgroupParser, chunks [][]byte) (objects []SubgroupObject, err error) {
	for _, b := range chunks {
		for {
			o, n, err := p.Next(b)
			b = b[n:]
			if err == ErrIncomplete {
				break
			}
			if err != nil {
				return objects, err
			}
			object := *o
			object.Properties = bytes.Clone(o.Properties)
			objects = append(objects, object)
		}
		if len(b) > 0 {
			panic("bytes left although more are needed")
		}
	}
	return objects, p.Finish()
}

// chop cuts b into pieces of n bytes.
func chop(b []byte, n int) (chunks [][]byte) {
	for len(b) > n {
		chunks = append(chunks, b[:n:n])
		b = b[n:]
	}
	return append(chunks, b)
}

func TestSubgroupParser(t *testing.T) {
	for _, tc := range subgroupStreams {
		b := unhex(tc.wire)
		for size := 1; size <= len(b); size++ {
			t.Run(fmt.Sprintf("%s in pieces of %d", tc.name, size), func(t *testing.T) {
				p := NewSubgroupParser(tc.layout, tc.header, 100)
				objects, err := parseSubgroup(p, chop(b, size))
				require.NoError(t, err)
				require.Equal(t, tc.objects, objects)
				require.EqualValues(t, 100+len(b), p.Offset())
			})
		}
	}
}

// TestSubgroupTruncation ends streams after every byte. A stream may end only between objects (draft §11.4).
func TestSubgroupTruncation(t *testing.T) {
	for _, tc := range subgroupStreams {
		b := unhex(tc.wire)
		boundary := map[int]bool{0: true}
		for _, o := range tc.objects {
			boundary[int(o.End)-100] = true
		}
		for n := range b {
			for _, size := range []int{1, len(b)} {
				_, err := parseSubgroup(NewSubgroupParser(tc.layout, tc.header, 100), chop(b[:n], size))
				if boundary[n] {
					require.NoError(t, err)
				} else {
					requireCode(t, SessionProtocolViolation, err)
				}
			}
		}
	}
}

// subgroupViolations has a row for each condition of draft §11.2.1 and §11.4.2 that closes the session.
var subgroupViolations = []struct {
	section    string
	name       string
	properties bool // the header says that there are properties
	wire       string
}{
	{"11.2.1.1", "status 1", false, "00 00 01"},
	{"11.2.1.1", "status 2", false, "00 00 02"},
	{"11.2.1.1", "status 5", false, "00 00 05"},
	{"11.2.1.1", "status of grease", false, "00 00 809d"},
	{"11.2.1.2", "end of group with properties", true, "00 02 0405 00 03"},
	{"11.2.1.2", "end of track with properties", true, "00 02 0405 00 04"},
	{"11.4.2", "object id above 2^64-1", false, "ffffffffffffffffff 01 61 00 00 00"},
	{"11.4.2", "object id above 2^64-1 by a delta", false, "05 01 61 fffffffffffffffffa 00 00"},
	{"1.4.3", "property type above 2^64-1", true, "00 0b ffffffffffffffffff 00 01 00 00"},
	{"1.4.3", "property longer than 2^16-1", true, "00 04 01 c10000 00 00"},
	{"11.4.2", "payload longer than a stream", false, "00 ff7fffffffffffffff"},
}

func TestSubgroupViolations(t *testing.T) {
	plain, properties := SubgroupHeader{}, SubgroupHeader{HasProperties: true}
	for _, tc := range subgroupViolations {
		b := unhex(tc.wire)
		for size := range len(b) {
			t.Run(fmt.Sprintf("%s %s in pieces of %d", tc.section, tc.name, size+1), func(t *testing.T) {
				h := SubgroupHeader{HasProperties: tc.properties}
				_, err := parseSubgroup(NewSubgroupParser(DataLayout1, h, 100), chop(b, size+1))
				requireCode(t, SessionProtocolViolation, err)
			})
		}
	}
	// The largest Object ID itself is valid.
	objects, err := parseSubgroup(NewSubgroupParser(DataLayout1, plain, 0),
		[][]byte{unhex("05 01 61 fffffffffffffffff9 00 00")})
	require.NoError(t, err)
	require.EqualValues(t, uint64(top), objects[1].ObjectID)

	_, err = parseSubgroup(NewSubgroupParser(DataLayout1, properties, 0), [][]byte{unhex("05 02 3e06 00 00")})
	requireMalformed(t, err)
}

// TestLongProperties checks the limit, and that long properties in small pieces are joined, and their memory freed.
func TestLongProperties(t *testing.T) {
	header := SubgroupHeader{HasProperties: true}
	var pairs []KeyValuePair
	for range 4 {
		pairs = append(pairs, KeyValuePair{Type: 0x0d, Bytes: bytes.Repeat([]byte{'x'}, 0xff00)})
	}
	properties, err := NewProperties(pairs...)
	require.NoError(t, err)
	e := NewSubgroupEncoder(DataLayout1, header)
	b, err := e.AppendObject(nil, ObjectHeader{Properties: properties})
	require.NoError(t, err)
	b, err = e.AppendObject(b, ObjectHeader{ObjectID: 1})
	require.NoError(t, err)
	p := NewSubgroupParser(DataLayout1, header, 0)
	objects, err := parseSubgroup(p, chop(b, 1000))
	require.NoError(t, err)
	require.Equal(t, properties, objects[0].Properties)
	require.LessOrEqual(t, cap(p.scanner.carry), maxIdleCarry)

	b = AppendVarint([]byte{0}, MaxObjectPropertiesLen+1)
	_, err = parseSubgroup(NewSubgroupParser(DataLayout1, header, 0), chop(b, 1))
	require.ErrorIs(t, err, ErrPropertiesTooLong)
	_, err = e.AppendObject(nil, ObjectHeader{ObjectID: 2, Properties: make(Properties, MaxObjectPropertiesLen+1)})
	require.ErrorIs(t, err, ErrPropertiesTooLong)
}

// TestLargePayload parses an object of a gigabyte, and checks that the parser keeps nothing of it.
func TestLargePayload(t *testing.T) {
	const size = 1 << 30
	e := NewSubgroupEncoder(DataLayout1, SubgroupHeader{})
	b, err := e.AppendObject(nil, ObjectHeader{PayloadLength: size})
	require.NoError(t, err)
	p := NewSubgroupParser(DataLayout1, SubgroupHeader{}, 0)
	o, n, err := p.Next(b)
	require.NoError(t, err)
	require.Equal(t, len(b), n)
	require.EqualValues(t, len(b)+size, o.End)

	chunk := make([]byte, 1<<20)
	// AllocsPerRun calls the function once more than it counts.
	allocs := testing.AllocsPerRun(size/len(chunk)-1, func() {
		if _, n, err := p.Next(chunk); err != ErrIncomplete || n != len(chunk) {
			t.Fatalf("%d bytes consumed, error %v", n, err)
		}
	})
	require.Zero(t, allocs)
	require.NoError(t, p.Finish())
	require.EqualValues(t, o.End, p.Offset())
}

func TestSubgroupEncoderRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		header SubgroupHeader
		object ObjectHeader
		want   string
	}{
		{"same object id", SubgroupHeader{}, ObjectHeader{ObjectID: 5}, "after object 5"},
		{"smaller object id", SubgroupHeader{}, ObjectHeader{ObjectID: 4}, "after object 5"},
		{"properties", SubgroupHeader{}, ObjectHeader{ObjectID: 6, Properties: Properties{4, 5}}, "header says"},
		{"status with payload", SubgroupHeader{}, ObjectHeader{ObjectID: 6, Status: StatusEndOfGroup, PayloadLength: 1},
			"payload"},
		{"status with properties", SubgroupHeader{HasProperties: true}, ObjectHeader{
			ObjectID: 6, Status: StatusEndOfTrack, Properties: Properties{4, 5},
		}, "properties"},
		{"unknown status", SubgroupHeader{}, ObjectHeader{ObjectID: 6, Status: 1}, "unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := NewSubgroupEncoder(DataLayout1, tc.header)
			_, err := e.AppendObject(nil, ObjectHeader{ObjectID: 5})
			require.NoError(t, err)
			b, err := e.AppendObject([]byte{1}, tc.object)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, []byte{1}, b)
			_, err = e.AppendObject(nil, ObjectHeader{ObjectID: 6})
			require.NoError(t, err, "the encoder is unusable after an error")
		})
	}
}

// FuzzSubgroupParser checks that pieces of any size give the same objects and errors, and that parsed objects can be
// encoded.
func FuzzSubgroupParser(f *testing.F) {
	for _, tc := range subgroupStreams {
		f.Add(unhex(tc.wire), tc.header.HasProperties, uint8(3))
	}
	for _, tc := range subgroupViolations {
		f.Add(unhex(tc.wire), tc.properties, uint8(2))
	}
	f.Fuzz(func(t *testing.T, stream []byte, properties bool, size uint8) {
		defer testlimit.Start(t, len(stream), 1000)()
		header := SubgroupHeader{HasProperties: properties, GroupID: 1}
		for _, l := range layouts {
			whole, err1 := parseSubgroup(NewSubgroupParser(l, header, 0), [][]byte{stream})
			pieces, err2 := parseSubgroup(NewSubgroupParser(l, header, 0), chop(stream, max(int(size), 1)))
			require.Equal(t, whole, pieces)
			require.Equal(t, err1, err2)
			e := NewSubgroupEncoder(l, header)
			for _, o := range whole {
				b, err := e.AppendObject(nil, o.ObjectHeader)
				require.NoError(t, err)
				require.LessOrEqual(t, int64(len(b)), o.PayloadStart-o.Start)
			}
		}
	})
}
