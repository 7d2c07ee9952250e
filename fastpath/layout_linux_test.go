package fastpath

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/internal/rtpframe"
	"sluice/lab"
	"sluice/moqt"
)

// TestLayout compares the structs that package media shares with the programs' C structs, field by field.
func TestLayout(t *testing.T) {
	for _, tt := range []struct {
		ours, kernels any
		names         map[string]string // where they differ by more than case
	}{
		{claim.ConnState{}, bpf.ConnState{}, nil},
		{claim.StreamState{}, bpf.StreamState{}, map[string]string{"State": "Phase"}},
		{claim.Record{}, bpf.Record{}, nil},
		{rtpframe.Frames{}, bpf.RTPRtpFrames{}, nil},
		{rtpframe.Flow{}, bpf.RTPRtpFlow{}, map[string]string{
			"full": "BucketAt", "cost": "BucketCost", "burst": "BucketBurst",
		}},
	} {
		ours, kernels := reflect.TypeOf(tt.ours), reflect.TypeOf(tt.kernels)
		require.Equal(t, kernels.Size(), ours.Size(), ours)
		found := 0
		for i := range kernels.NumField() {
			k := kernels.Field(i)
			if k.Name == "_" || len(k.Name) > 2 && k.Name[:3] == "Pad" {
				continue
			}
			o, ok := ours.FieldByNameFunc(func(name string) bool {
				if other, ok := tt.names[name]; ok {
					name = other
				}
				return strings.EqualFold(name, k.Name)
			})
			require.True(t, ok, "%v has no %s", ours, k.Name)
			require.Equal(t, k.Offset, o.Offset, "%v.%s", ours, o.Name)
			require.Equal(t, k.Type.Size(), o.Type.Size(), "%v.%s", ours, o.Name)
			found++
		}
		named := 0
		for i := range ours.NumField() {
			if ours.Field(i).Name != "_" {
				named++
			}
		}
		require.Equal(t, named, found, "%v has a field that the kernel does not know", ours)
	}
}

// TestPrefix compares the prefixes that the kernel writes with package moqt's.
func TestPrefix(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	s := r.subscribers[0]
	r.kernel.conns[s.index].MaxUni = 1 << 20
	values := []uint64{0, 1, 127, 128, 1<<14 - 1, 1 << 14, 1<<21 - 1, 1 << 28, 1<<35 + 1, 1 << 42, 1 << 49, 1<<56 - 1,
		1 << 56, 1<<64 - 1}
	id := uint64(3)
	for typ := range 0x80 {
		h, _, err := moqt.ParseSubgroupHeader(moqt.Versions()[0], concat(typ, 0xff, make([]byte, 40)))
		if err != nil {
			continue // no type of a subgroup
		}
		v := func(i int) uint64 { return values[(typ*5+i*3)%len(values)] }
		h.GroupID, h.TrackAlias, h.Priority = v(0), 77, byte(typ*7)
		first := v(1)
		want := h
		switch h.SubgroupIDMode {
		case moqt.SubgroupIDPresent:
			h.SubgroupID = v(2)
			want = Forwarded(h, h.SubgroupID, h.Priority)
		case moqt.SubgroupIDFirstObject:
			want = Forwarded(h, first, h.Priority)
		default:
			want = Forwarded(h, 0, h.Priority)
		}
		if h.DefaultPriority {
			want.Priority = 128
		}
		sub := r.subscription(s)
		sub.Alias = v(3)
		want.TrackAlias = sub.Alias
		require.NoError(t, r.SetTrack(5, 128, []bpf.Subscription{sub}))
		objects := concat(vi64(first), 3, "abc")
		r.publish(stream(id, 0, 1, append(moqt.AppendSubgroupHeader(nil, moqt.Versions()[0], h), objects...)))
		got := r.receive(s)
		require.Equal(t, append(moqt.AppendSubgroupHeader(nil, moqt.Versions()[0], want), objects...), got.data,
			"type %#x", typ)
		require.NoError(t, r.ingress.FirstStreams.Delete(bpf.SubgroupKey{
			Group: h.GroupID, Subgroup: want.SubgroupID, Track: 5, Publisher: publisherIndex,
		}))
		id += 4
	}
	require.Greater(t, id, uint64(4*40))
}
