package moqt

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sluice/internal/testlimit"
)

func TestFetchHeader(t *testing.T) {
	for v, wire := range map[Version]string{Draft18: "05 812c", Draft16: "05 412c"} {
		want := unhex(wire)
		require.Equal(t, want, AppendFetchHeader(nil, v, FetchHeader{RequestID: 300}))
		h, n, err := ParseFetchHeader(v, append(want, 0xaa))
		require.NoError(t, err)
		require.Equal(t, FetchHeader{RequestID: 300}, h)
		require.Equal(t, 3, n)
		for i := range want {
			_, _, err := ParseFetchHeader(v, want[:i])
			require.ErrorIs(t, err, ErrIncomplete)
		}
	}
	_, _, err := ParseFetchHeader(Draft18, unhex("10 00"))
	requireCode(t, SessionProtocolViolation, err)
	_, n, err := ParseFetchHeader(Draft18, unhex("ff0000000000000005 ff0000000000000001"))
	require.NoError(t, err)
	require.Equal(t, 2*MaxVarintLen, n)
}

// fetchStreams are FETCH responses after their headers, in the shortest encoding, of the newest version or of draft-16.
var fetchStreams = []struct {
	name    string
	order   GroupOrder
	draft16 bool
	wire    string
	items   []FetchObject
}{
	{
		name:  "consecutive objects",
		order: Ascending,
		wire:  "1c 05 07 80 02 6162" + "00 01 63" + "00 00",
		items: []FetchObject{
			{Location: Location{5, 7}, Priority: 128, PayloadLength: 2},
			{Location: Location{5, 8}, Priority: 128, PayloadLength: 1},
			{Location: Location{5, 9}, Priority: 128},
		},
	},
	{
		name:  "groups, ascending",
		order: Ascending,
		wire:  "1c 05 07 80 00" + "08 00 00" + "0c 30 00 00" + "04 05 00",
		items: []FetchObject{
			{Location: Location{5, 7}, Priority: 128},
			{Location: Location{6, 8}, Priority: 128},
			{Location: Location{55, 0}, Priority: 128},
			{Location: Location{55, 5}, Priority: 128},
		},
	},
	{
		name:  "groups, descending",
		order: Descending,
		wire:  "1c 05 07 80 00" + "0c 00 00 00" + "0c 03 03 00",
		items: []FetchObject{
			{Location: Location{5, 7}, Priority: 128},
			{Location: Location{4, 0}, Priority: 128},
			{Location: Location{0, 3}, Priority: 128},
		},
	},
	{
		name:  "subgroups, priorities, properties, datagrams",
		order: Ascending,
		wire: "1f 00 04 00 01 00" + "01 00" + "02 00" + "13 09 02 00" + "20 02 0407 01 78" + "40 00" + "03 05 00" +
			"50 ff 00",
		items: []FetchObject{
			{Location: Location{0, 0}, SubgroupID: 4, Priority: 1},
			{Location: Location{0, 1}, SubgroupID: 4, Priority: 1},
			{Location: Location{0, 2}, SubgroupID: 5, Priority: 1},
			{Location: Location{0, 3}, SubgroupID: 9, Priority: 2},
			{Location: Location{0, 4}, Priority: 2, Properties: Properties{4, 7}, PayloadLength: 1},
			{Location: Location{0, 5}, Datagram: true, Priority: 2},
			{Location: Location{0, 6}, SubgroupID: 5, Priority: 2},
			{Location: Location{0, 7}, Datagram: true, Priority: 255},
		},
	},
	{
		name:  "ranges",
		order: Ascending,
		wire:  "808c 05 07" + "1f 00 03 00 01 00" + "810c 06 09" + "01 00" + "808c 08 00" + "08 00 00",
		items: []FetchObject{
			{Kind: FetchKindNonExistent, Location: Location{5, 7}},
			{Location: Location{6, 0}, SubgroupID: 3, Priority: 1},
			{Kind: FetchKindUnknown, Location: Location{6, 9}},
			{Location: Location{6, 10}, SubgroupID: 3, Priority: 1},
			{Kind: FetchKindNonExistent, Location: Location{8, 0}},
			{Location: Location{9, 1}, Priority: 1},
		},
	},
	{
		name:  "largest location",
		order: Ascending,
		wire:  "1c fffffffffffffffffe fffffffffffffffffe 00 00" + "00 00" + "0c 00 00 00",
		items: []FetchObject{
			{Location: Location{top - 1, top - 1}},
			{Location: Location{top - 1, top}},
			{Location: Location{top, 0}},
		},
	},
	{
		name:    "draft-16, where all ids are absolute",
		order:   Ascending,
		draft16: true,
		wire: "1c 05 07 80 01 61" + "24 09 03 044064 00" + "408c 05 4064" + "1b 4046 03 01 00" + "404c 4047 04 00" +
			"410c 4048 00",
		items: []FetchObject{
			{Location: Location{5, 7}, Priority: 128, PayloadLength: 1},
			{Location: Location{5, 9}, Priority: 128, Properties: Properties{4, 100}},
			{Kind: FetchKindNonExistent, Location: Location{5, 100}},
			{Location: Location{70, 101}, SubgroupID: 3, Priority: 1},
			{Location: Location{71, 4}, Datagram: true, Priority: 1},
			{Kind: FetchKindUnknown, Location: Location{72, 0}},
		},
	},
}

func fetchVersion(draft16 bool) Version {
	if draft16 {
		return Draft16
	}
	return newest
}

// parseFetch feeds the chunks to a parser and returns copies of the items, and the first error.
func parseFetch(p *FetchParser, chunks [][]byte) (items []FetchItem, err error) {
	for _, b := range chunks {
		for {
			i, n, err := p.Next(b)
			b = b[n:]
			if err == ErrIncomplete {
				break
			}
			if err != nil {
				return items, err
			}
			item := *i
			item.Properties = bytes.Clone(i.Properties)
			items = append(items, item)
		}
	}
	return items, p.Finish()
}

func TestFetchParser(t *testing.T) {
	for _, tc := range fetchStreams {
		b := unhex(tc.wire)
		for size := 1; size <= len(b); size++ {
			t.Run(fmt.Sprintf("%s in pieces of %d", tc.name, size), func(t *testing.T) {
				items, err := parseFetch(NewFetchParser(fetchVersion(tc.draft16), tc.order, 3), chop(b, size))
				require.NoError(t, err)
				require.Len(t, items, len(tc.items))
				next := int64(3)
				for i, item := range items {
					require.Equal(t, tc.items[i], item.FetchObject)
					require.Equal(t, next, item.Start)
					require.EqualValues(t, item.PayloadLength, item.End-item.PayloadStart)
					next = item.End
				}
				require.EqualValues(t, 3+len(b), next)
			})
		}
	}
}

func TestFetchEncoder(t *testing.T) {
	for _, tc := range fetchStreams {
		t.Run(tc.name, func(t *testing.T) {
			want := unhex(tc.wire)
			e := NewFetchEncoder(fetchVersion(tc.draft16), tc.order)
			var got []byte
			for _, o := range tc.items {
				var err error
				got, err = e.AppendObject(got, &o)
				require.NoError(t, err)
				got = append(got, want[len(got):][:o.PayloadLength]...)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestFetchTruncation(t *testing.T) {
	for _, tc := range fetchStreams {
		b := unhex(tc.wire)
		v := fetchVersion(tc.draft16)
		items, err := parseFetch(NewFetchParser(v, tc.order, 0), [][]byte{b})
		require.NoError(t, err)
		boundary := map[int]bool{0: true}
		for _, item := range items {
			boundary[int(item.End)] = true
		}
		for n := range b {
			_, err := parseFetch(NewFetchParser(v, tc.order, 0), chop(b[:n], 2))
			if boundary[n] {
				require.NoError(t, err)
			} else {
				requireCode(t, SessionProtocolViolation, err)
			}
		}
	}
}

// fetchViolations has a row for each condition of draft §11.4.4 that closes the session.
var fetchViolations = []struct {
	section string
	name    string
	order   GroupOrder
	wire    string
}{
	{"11.4.4", "flags 0x80", Ascending, "8080 00 00"},
	{"11.4.4", "flags 0x8d", Ascending, "808d 00 00"},
	{"11.4.4", "flags 0x10d", Ascending, "810d 00 00"},
	{"11.4.4", "flags 0x20d", Ascending, "820d 00 00"},
	{"11.4.4.1", "first object without group id", Ascending, "14 00 00 00"},
	{"11.4.4.1", "first object without object id", Ascending, "18 00 00 00"},
	{"11.4.4.1", "first object without priority", Ascending, "0c 00 00 00"},
	{"11.4.4.1", "first object with the prior subgroup", Ascending, "1d 00 00 00 00"},
	{"11.4.4.1", "first object with the prior subgroup plus one", Ascending, "1e 00 00 00 00"},
	{"11.4.4.1", "group id above 2^64-1", Ascending, "1c 05 00 00 00 08 fffffffffffffffffa 00"},
	{"11.4.4.1", "group id below 0", Descending, "1c 05 00 00 00 08 05 00"},
	{"11.4.4.1", "object id above 2^64-1", Ascending, "1c 00 ffffffffffffffffff 00 00 00 00"},
	{"11.4.4.1", "object id above 2^64-1 by a delta", Ascending, "1c 00 05 00 00 04 fffffffffffffffffb 00"},
	{"11.4.4.1", "object id above 2^64-1 in a new group", Ascending, "1c 00 ffffffffffffffffff 00 00 08 00 00"},
	{"11.4.4.1", "subgroup id above 2^64-1", Ascending, "1f 00 ffffffffffffffffff 00 00 00 02 00"},
	{"11.4.4.1", "prior subgroup of a datagram", Ascending, "5c 00 00 00 00 01 00"},
	{"11.4.4.2", "priority before any object", Ascending, "808c 00 00 00 00"},
	{"11.4.4.2", "prior subgroup before any object", Ascending, "808c 00 00 11 00 00"},
	{"11.4", "payload longer than a stream", Ascending, "1c 00 00 00 ff7fffffffffffffff"},
	{"1.4.3", "property longer than 2^16-1", Ascending, "3c 00 00 00 04 01 c10000 00"},
}

func TestFetchViolations(t *testing.T) {
	for _, tc := range fetchViolations {
		b := unhex(tc.wire)
		for _, size := range []int{1, len(b)} {
			t.Run(fmt.Sprintf("%s %s in pieces of %d", tc.section, tc.name, size), func(t *testing.T) {
				_, err := parseFetch(NewFetchParser(newest, tc.order, 0), chop(b, size))
				requireCode(t, SessionProtocolViolation, err)
			})
		}
	}
	for name, wire := range map[string]string{
		"bits of the subgroup ignored on datagrams": "5f 00 00 00 00 43 00 41 00",
		"empty properties":                          "3c 00 00 00 00 00",
		"group id to the last":                      "1c 05 00 00 00 08 fffffffffffffffff9 00",
	} {
		_, err := parseFetch(NewFetchParser(newest, Ascending, 0), [][]byte{unhex(wire)})
		require.NoError(t, err, name)
	}
	_, err := parseFetch(NewFetchParser(newest, Ascending, 0), [][]byte{unhex("3c 00 00 00 03 c04000 00 00")})
	requireMalformed(t, err)
	_, err = parseFetch(NewFetchParser(Draft16, Ascending, 0), [][]byte{unhex("420c 01 02")})
	requireCode(t, SessionProtocolViolation, err) // End of Timed-Out Range
}

func TestFetchEncoderRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		order  GroupOrder
		object FetchObject
		want   string
	}{
		{"same object", Ascending, FetchObject{Location: Location{5, 5}}, "after {5, 5}"},
		{"smaller object", Descending, FetchObject{Location: Location{5, 4}}, "after {5, 5}"},
		{"smaller group", Ascending, FetchObject{Location: Location{4, 9}}, "ascending"},
		{"larger group", Descending, FetchObject{Location: Location{6, 0}}, "descending"},
		{"range in the wrong order", Ascending, FetchObject{Kind: FetchKindUnknown, Location: Location{5, 5}},
			"after {5, 5}"},
		{"long properties", Ascending, FetchObject{
			Location: Location{5, 6}, Properties: make(Properties, MaxObjectPropertiesLen+1),
		}, "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := NewFetchEncoder(newest, tc.order)
			_, err := e.AppendObject(nil, &FetchObject{Location: Location{5, 5}})
			require.NoError(t, err)
			b, err := e.AppendObject([]byte{1}, &tc.object)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, []byte{1}, b)
		})
	}
}

func TestFetchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.SampledFrom([]GroupOrder{Ascending, Descending}).Draw(t, "order")
		v := rapid.SampledFrom([]Version{Draft16, newest}).Draw(t, "version")
		e := NewFetchEncoder(v, order)
		at := Location{min(anyUint64().Draw(t, "group"), v.DataLayout().MaxNumber()-100), 0}
		var stream []byte
		var want []FetchObject
		for range 8 {
			o := anyFetchObject(t, v, at)
			var err error
			stream, err = e.AppendObject(stream, &o)
			require.NoError(t, err)
			stream = append(stream, make([]byte, o.PayloadLength)...)
			want = append(want, o)
			if at = nextFetched(t, at, order); at == o.Location {
				break
			}
		}
		size := rapid.IntRange(1, 100).Draw(t, "chunk")
		items, err := parseFetch(NewFetchParser(v, order, 0), chop(stream, size))
		require.NoError(t, err)
		require.Len(t, items, len(want))
		for i, item := range items {
			require.Equal(t, string(want[i].Properties), string(item.Properties))
			item.Properties, want[i].Properties = nil, nil
			require.Equal(t, want[i], item.FetchObject)
		}
	})
}

func anyFetchObject(t *rapid.T, v Version, at Location) FetchObject {
	o := FetchObject{Kind: FetchKind(rapid.IntRange(0, 2).Draw(t, "kind")), Location: at}
	if o.Kind != FetchKindObject {
		return o
	}
	o.Priority = uint8(rapid.IntRange(0, 2).Draw(t, "priority"))
	o.Properties = anyObjectProperties(t, v.DataLayout().MaxNumber())
	o.PayloadLength = rapid.Uint64Max(200).Draw(t, "payload")
	if o.Datagram = rapid.Bool().Draw(t, "datagram"); !o.Datagram {
		o.SubgroupID = rapid.Uint64Max(3).Draw(t, "subgroup")
	}
	return o
}

// nextFetched draws a location that may follow at. It returns at if it draws one that does not exist.
func nextFetched(t *rapid.T, at Location, order GroupOrder) Location {
	step := 1 + rapid.Uint64Max(3).Draw(t, "step")
	switch {
	case rapid.Bool().Draw(t, "same group"):
		return Location{at.Group, at.Object + step}
	case order == Ascending && at.Group+step > at.Group:
		return Location{at.Group + step, rapid.Uint64Max(9).Draw(t, "object")}
	case order == Descending && at.Group >= step:
		return Location{at.Group - step, rapid.Uint64Max(9).Draw(t, "object")}
	}
	return at
}

// FuzzFetchParser checks that pieces of any size give the same items and errors, and that items in order can be encoded
// again.
func FuzzFetchParser(f *testing.F) {
	for _, tc := range fetchStreams {
		f.Add(unhex(tc.wire), tc.order == Descending, uint8(3))
	}
	for _, tc := range fetchViolations {
		f.Add(unhex(tc.wire), tc.order == Descending, uint8(2))
	}
	f.Fuzz(func(t *testing.T, stream []byte, descending bool, size uint8) {
		defer testlimit.Start(t, len(stream), 1000)()
		order := Ascending
		if descending {
			order = Descending
		}
		for _, v := range []Version{Draft16, newest} {
			whole, err1 := parseFetch(NewFetchParser(v, order, 0), [][]byte{stream})
			pieces, err2 := parseFetch(NewFetchParser(v, order, 0), chop(stream, max(int(size), 1)))
			require.Equal(t, whole, pieces)
			require.Equal(t, err1, err2)
			checkEncodesAgain(t, v, order, whole)
		}
	})
}

// checkEncodesAgain encodes the parsed items, if they are in order, and parses the result.
func checkEncodesAgain(t *testing.T, v Version, order GroupOrder, items []FetchItem) {
	e, p := NewFetchEncoder(v, order), NewFetchParser(v, order, 0)
	for _, item := range items {
		b, err := e.AppendObject(nil, &item.FetchObject)
		if err != nil {
			return // not in order
		}
		require.LessOrEqual(t, int64(len(b)), item.PayloadStart-item.Start)
		again, _, err := p.Next(append(b, make([]byte, min(item.PayloadLength, 1<<16))...))
		require.NoError(t, err)
		require.Equal(t, item.Location, again.Location)
		require.Equal(t, item.SubgroupID, again.SubgroupID)
		require.Equal(t, item.Priority, again.Priority)
		require.Equal(t, string(item.Properties), string(again.Properties))
		p.scanner.end = p.scanner.offset // the stream has no payloads
	}
}
