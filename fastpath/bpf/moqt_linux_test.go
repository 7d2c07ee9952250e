package bpf_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/fastpath/bpf/bpftest"
)

func TestSubgroupHeaders(t *testing.T) {
	k := bpftest.NewWalk(t)
	parse := func(data []byte) header { return k.SubgroupHeader(t, stream(3, 0, 0, data), 0) }
	for typ := range 0x80 {
		for _, wt := range []bool{false, true} {
			b := concat(typ, vi64(5_000_000), vi64(1<<50))
			want := header{Alias: 5_000_000, Group: 1 << 50, Type: uint8(typ)}
			if typ&6 == 4 {
				b = append(b, vi64(1<<63)...)
				want.Subgroup = 1 << 63
			}
			if typ&0x20 == 0 {
				b = append(b, 17)
				want.Priority = 17
			}
			if wt {
				b = concat(0x40, 0x54, uint64(4000), b)
			}
			want.Len = uint32(len(b))
			if typ&6 == 2 {
				want.Subgroup = 'o' // the first object's id follows
			}

			got := parse(append(b, "object"...))
			if valid := typ&0x10 != 0 && typ&6 != 6; !valid {
				require.Zero(t, got.Len, "type %#x", typ)
				continue
			}
			if typ&0x20 != 0 {
				got.Priority = 0
			}
			require.Equal(t, want, got, "type %#x webtransport %v", typ, wt)

			if typ&6 == 2 {
				require.Zero(t, parse(b).Len, "the header alone does not say which subgroup it is")
				continue
			}
			require.Equal(t, want.Len, parse(b).Len, "the header alone")
			for cut := range len(b) {
				require.Zero(t, parse(b[:cut]).Len, "type %#x cut at %d", typ, cut)
			}
		}
	}
}

// TestOtherStreams gives the parser a FETCH_OK of a publisher, which reads like a SUBGROUP_HEADER but for its stream,
// and the middle of a stream, which can read like anything.
func TestOtherStreams(t *testing.T) {
	k := bpftest.NewWalk(t)
	fetchOK := []byte{0x18, 0, 8, 0, 0, 1, 0, 0x0e, 16, 0x22, 1}
	for id, isHeader := range map[uint64]bool{0: false, 1: false, 2: true, 3: true} {
		require.Equal(t, isHeader, k.SubgroupHeader(t, stream(id, 0, 0, fetchOK), 0).Len > 0, "stream %d", id)
		require.Zero(t, k.SubgroupHeader(t, stream(id, 1, 0, fetchOK), 0).Len, "stream %d", id)
	}
}

func TestObjectDatagrams(t *testing.T) {
	k := bpftest.NewWalk(t)
	for typ := range 0x40 {
		for _, wt := range []bool{false, true} {
			start := concat(typ, vi64(77))
			if wt {
				start = concat(uint64(1000), start)
			}
			rest := vi64(1 << 40)
			want := header{Alias: 77, Group: 1 << 40, Type: uint8(typ), Len: uint32(len(start) + len(rest))}
			if typ&4 == 0 {
				rest = append(rest, vi64(300)...)
				want.Object = 300
				want.Len += 2
			}
			if typ&8 == 0 {
				rest = append(rest, 9)
				want.Priority = 9
				want.Len++
			}
			if typ&1 != 0 {
				rest = append(rest, 2, 0, 1)
			}
			datagram := concat(start, rest, "payload")
			got := k.ObjectDatagram(t, concat(0x31, uint64(len(datagram)), datagram), 0, wt)
			if typ&0x30 != 0 {
				require.Zero(t, got.Len, "type %#x", typ)
				continue
			}
			if typ&8 != 0 {
				got.Priority = 0
			}
			require.Equal(t, want, got, "type %#x webtransport %v", typ, wt)
			for cut := range len(start) + len(rest) {
				got := k.ObjectDatagram(t, concat(0x30, datagram[:cut]), 0, wt)
				require.Zero(t, got.Len, "type %#x cut at %d", typ, cut)
			}
		}
	}
}
