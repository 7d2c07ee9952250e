package cmaf

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

func words(list ...uint32) (b []byte) {
	for _, v := range list {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// fragmentOf returns a traf box whose samples have a default size, with trun boxes of these bodies.
func fragmentOf(track, size uint32, truns ...[]byte) []byte {
	body := [][]byte{makeBox("tfhd", words(tfhdBaseIsMoof|tfhdSize, track, size)), makeBox("tfdt", words(0, 0))}
	for _, b := range truns {
		body = append(body, makeBox("trun", b))
	}
	return makeBox("traf", body...)
}

// An object does not cost more than its bytes, whatever it says of its samples.
func TestHostileChunks(t *testing.T) {
	in, _ := readAll(t, sample(t))
	track := in.Tracks[0].ID
	mfhd, mdat := makeBox("mfhd", words(0, 1)), makeBox("mdat", make([]byte, 1<<20))
	empty := fragmentOf(track, 0, words(0, maxSamples)) // samples without any byte of their own
	shared := bytes.Repeat(makeBox("trun", words(trunDataOffset, 1, 0)), maxRuns)
	protected := func(typ string) []byte {
		return makeBox("traf", makeBox("tfhd", words(0, track)), makeBox("tfdt", words(0, 0)), makeBox(typ))
	}
	for name, c := range map[string]struct{ object, want string }{
		"samples without bytes": {
			string(makeBox("moof", mfhd, bytes.Repeat(empty, 2))), "more than 65536 samples in an object"},
		"many moof boxes": {
			string(bytes.Repeat(makeBox("moof", mfhd, empty), 2000)), "more than 65536 samples in an object"},
		"samples of the same bytes": {
			string(makeBox("moof", mfhd, makeBox("traf", makeBox("tfhd", words(tfhdBaseIsMoof|tfhdSize, track, 1<<20)),
				makeBox("tfdt", words(0, 0)), shared))) + string(mdat), "samples share their media"},
		"more runs than there may be": {
			string(makeBox("moof", mfhd, fragmentOf(track, 0, slices.Repeat([][]byte{words(0, 0)}, maxRuns+1)...))),
			"more than 4096 trun boxes"},
		"more samples than there may be": {
			string(makeBox("moof", mfhd, fragmentOf(track, 0, words(trunFlags, 0), words(0, maxSamples), words(0, 1)))),
			"trun: 1 samples claimed"},
		"as many tracks as there may be": {
			string(makeBox("moof", mfhd, bytes.Repeat(fragmentOf(track, 1<<20, words(0, 1)), maxTracks))),
			"media outside of the mdat box"},
		"more tracks than there may be": {
			string(makeBox("moof", mfhd, bytes.Repeat(empty, maxTracks+1))), "more than 64 tracks"},
		"encryption":  {string(makeBox("moof", mfhd, protected("senc"))), "encrypted media"},
		"its address": {string(makeBox("moof", mfhd, protected("saio"))), "encrypted media"},
	} {
		t.Run(name, func(t *testing.T) {
			testlimit.Run(t, len(c.object), 20, func() {
				_, err := in.Samples([]byte(c.object))
				require.ErrorContains(t, err, c.want)
			})
			testlimit.Run(t, len(in.Data)+len(c.object), 20, func() {
				r := NewReader(io.MultiReader(bytes.NewReader(in.Data), bytes.NewReader([]byte(c.object))))
				for {
					if _, err := r.Next(); err != nil {
						return
					}
				}
			})
		})
	}
}

// A fragment of several tracks becomes chunks that are not larger in all.
func TestHostileSplit(t *testing.T) {
	in, _ := readAll(t, sample(t))
	one, other := in.Tracks[0].ID, in.Tracks[1].ID
	run := words(trunDataOffset, 1, 0)
	free := makeBox("free", make([]byte, MaxHeaderSize/2))
	mdat := makeBox("mdat", make([]byte, 1<<20))
	for want, moof := range map[string][]byte{
		"samples share their media": makeBox("moof", makeBox("mfhd", words(0, 1)), fragmentOf(one, 1<<20, run),
			fragmentOf(other, 1<<20, run)),
		"cannot be split": makeBox("moof", makeBox("mfhd", words(0, 1)), free,
			bytes.Repeat(fragmentOf(one, 1, run), 32)),
	} {
		data := bytes.Join([][]byte{in.Data, moof, mdat}, nil)
		testlimit.Run(t, len(data), 20, func() {
			r := NewReader(bytes.NewReader(data))
			_, err := r.Next()
			require.ErrorContains(t, err, want)
		})
	}
}

// A box takes memory for the bytes that have come, not for the size that it claims.
func TestClaimedSize(t *testing.T) {
	in, _ := readAll(t, sample(t))
	claimed := append(bytes.Clone(in.Data), words(MaxHeaderSize)...)
	claimed = append(claimed, "moof"...)
	const times = 100
	testlimit.Run(t, times*len(claimed), 20, func() {
		for range times {
			r := NewReader(bytes.NewReader(claimed))
			_, err := r.Next()
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	})
}
