package cmaf

import (
	"bytes"
	"testing"

	"github.com/Eyevinn/mp4ff/mp4"
	"github.com/stretchr/testify/require"
)

// The samples of chunks are those that another library reads, also where fields have defaults or several boxes.
func TestSamples(t *testing.T) {
	in, chunks := readAll(t, sample(t))
	objects := [][]byte{several(t)}
	for _, c := range chunks[:20] {
		objects = append(objects, c.Data)
	}
	for _, object := range objects {
		got, err := in.Samples(object)
		require.NoError(t, err)
		f, err := mp4.DecodeFile(bytes.NewReader(object))
		require.NoError(t, err)
		var want []Sample
		for _, fragment := range f.Segments[0].Fragments {
			trex := &mp4.TrexBox{TrackID: fragment.Moof.Traf.Tfhd.TrackID}
			samples, err := fragment.GetFullSamples(trex)
			require.NoError(t, err)
			for _, s := range samples {
				want = append(want, Sample{
					DecodeTime: s.DecodeTime, Offset: s.CompositionTimeOffset, Duration: s.Dur,
					Sync: s.Flags&mp4.NonSyncSampleFlags == 0, Data: s.Data,
				})
			}
		}
		require.Equal(t, want, got)
	}
}

// several returns two chunks. The first has three frames with offsets of their own.
func several(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	for n := range 2 {
		f, err := mp4.CreateFragment(uint32(n), 1)
		require.NoError(t, err)
		for i := range 3 - 2*n {
			flags := mp4.NonSyncSampleFlags
			if i == 0 {
				flags = mp4.SyncSampleFlags
			}
			data := bytes.Repeat([]byte{byte(i)}, i+1)
			f.AddFullSample(mp4.FullSample{
				Sample:     mp4.NewSample(flags, uint32(512+i), uint32(len(data)), int32(-512*i)),
				DecodeTime: uint64(2000*n + 512*i), Data: data,
			})
		}
		require.NoError(t, f.Encode(&b))
	}
	return b.Bytes()
}

// Samples have the values of the init segment if their chunk states none.
func TestDefaults(t *testing.T) {
	in, _ := readAll(t, sample(t))
	data := bytes.Clone(in.Data)
	copy(find(data, "moov", "mvex", "trex")[12:], words(7, 3, sampleNonSync))
	in, err := ParseInit(data)
	require.NoError(t, err)
	moof := makeBox("moof", makeBox("mfhd", words(0, 1)), makeBox("free"),
		makeBox("traf", makeBox("tfhd", words(tfhdBaseIsMoof, in.Tracks[0].ID)), makeBox("tfdt", words(0, 5)),
			makeBox("trun", words(trunDataOffset, 2, 0))))
	got, err := in.Samples(moof)
	require.NoError(t, err)
	want := []Sample{{DecodeTime: 5, Duration: 7, Data: moof[:3]}, {DecodeTime: 12, Duration: 7, Data: moof[3:6]}}
	require.Equal(t, want, got)
}
