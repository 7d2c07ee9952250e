package cmaf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Eyevinn/mp4ff/mp4"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

func sample(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("../../testdata/clip.mp4")
	require.NoError(t, err)
	return b
}

func readAll(t testing.TB, data []byte) (*Init, []Chunk) {
	t.Helper()
	r := NewReader(bytes.NewReader(data))
	in, err := r.Init()
	require.NoError(t, err)
	var chunks []Chunk
	for {
		c, err := r.Next()
		if err == io.EOF {
			return in, chunks
		}
		require.NoError(t, err)
		chunks = append(chunks, c)
	}
}

func TestReaderReturnsTheSampleClip(t *testing.T) {
	data := sample(t)
	in, chunks := readAll(t, data)
	require.Equal(t, []TrackInfo{
		{
			ID: 1, Kind: Video, Timescale: 12800, Codec: "avc1.4d401e", Width: 640, Height: 360,
			Bitrate: in.Tracks[0].Bitrate,
			Config:  find(in.Data, "moov", "trak", "mdia", "minf", "stbl", "stsd")[8+86+8:][:41],
		},
		{
			ID: 2, Kind: Audio, Timescale: 48000, Codec: "mp4a.40.2", SampleRate: 48000, Channels: 2, Bitrate: 64305,
			Config: []byte{0x11, 0x90, 0x56, 0xe5, 0},
		},
	}, in.Tracks)
	require.Positive(t, in.Tracks[0].Bitrate)

	whole := bytes.Clone(in.Data)
	next := map[uint32]uint64{}
	keys, count := 0, map[uint32]int{}
	for _, c := range chunks {
		whole = append(whole, c.Data...)
		require.Equal(t, next[c.Track], c.DecodeTime, "decode times leave no gap")
		require.Equal(t, 1, c.Samples)
		next[c.Track] += c.Duration
		count[c.Track]++
		if c.Track == 1 && c.Sync {
			require.Zero(t, c.DecodeTime%(2*12800), "a key frame every 2 s")
			keys++
		}
		again, err := in.ParseChunk(c.Data)
		require.NoError(t, err)
		require.Equal(t, c, again)
	}
	require.Equal(t, data, whole, "init segment and chunks are the whole file")
	require.Equal(t, map[uint32]int{1: 250, 2: 470}, count)
	require.Equal(t, 5, keys)
	require.Equal(t, 10*time.Second, in.Track(1).Time(next[1]))
}

func TestReaderSkipsOtherBoxes(t *testing.T) {
	data := sample(t)
	in, chunks := readAll(t, data)
	var dirty []byte
	for _, b := range [][]byte{makeBox("free", make([]byte, 9)), in.Data, makeBox("sidx", []byte("x")), in.Data} {
		dirty = append(dirty, b...)
	}
	for _, c := range chunks[:6] {
		dirty = append(dirty, makeBox("styp", []byte("msdh"))...)
		dirty = append(dirty, makeBox("emsg", []byte("event"))...)
		dirty = append(dirty, makeBox("prft", nil)...)
		dirty = append(dirty, c.Data...)
		dirty = append(dirty, makeBox("uuid", make([]byte, 16))...)
	}
	r := NewReader(bytes.NewReader(dirty))
	for _, want := range chunks[:6] {
		got, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := r.Next()
	require.ErrorIs(t, err, io.EOF)
}

// A moof box with several tracks becomes the chunks that a moof box for each track would give.
func TestReaderSplitsTracksOfOneMoof(t *testing.T) {
	data := sample(t)
	in, chunks := readAll(t, data)
	video, audio, audio2 := chunks[0], chunks[1], chunks[2]
	require.Equal(t, []uint32{1, 2, 2}, []uint32{video.Track, audio.Track, audio2.Track})
	other := makeBox("free", make([]byte, 9))
	position := uint64(len(in.Data) + len(other))
	for name, base := range map[string]func(tfhd []byte, i int) []byte{
		"relative to moof":     func(b []byte, _ int) []byte { return b },
		"relative to previous": func(b []byte, _ int) []byte { return clearFlag(b, tfhdBaseIsMoof) },
		"absolute": func(b []byte, _ int) []byte {
			b = clearFlag(b, tfhdBaseIsMoof)
			b[11] |= tfhdBaseDataOffset
			b = append(b[:16:16], append(binary.BigEndian.AppendUint64(nil, position), b[16:]...)...)
			return makeBox("tfhd", b[8:])
		},
	} {
		t.Run(name, func(t *testing.T) {
			joined := joinTracks(t, base, name == "relative to previous", video, audio)
			_, got := readAll(t, bytes.Join([][]byte{in.Data, other, joined, audio2.Data}, nil))
			require.Len(t, got, 3)
			for i, want := range []Chunk{video, audio, audio2} {
				require.Equal(t, media(t, want), media(t, got[i]))
				require.Equal(t, frames(t, in, want), frames(t, in, got[i]))
				got[i].Data, want.Data = nil, nil
				require.Equal(t, want, got[i])
			}
		})
	}
}

func clearFlag(tfhd []byte, flag uint32) []byte {
	tfhd = bytes.Clone(tfhd)
	binary.BigEndian.PutUint32(tfhd[8:], binary.BigEndian.Uint32(tfhd[8:])&^flag)
	return tfhd
}

// joinTracks makes one moof and mdat of two chunks.
func joinTracks(t *testing.T, base func([]byte, int) []byte, previous bool, chunks ...Chunk) []byte {
	build := func(size int) []byte {
		var trafs, all []byte
		for i, c := range chunks {
			m, err := firstBox(c.Data)
			require.NoError(t, err)
			offset := size + 8 + len(all)
			if previous && i > 0 {
				offset = 0
			}
			trafs = append(trafs, makeBox("traf", rewrite(find(m.body, "traf"), func(x box) []byte {
				switch x.typ {
				case "tfhd":
					return base(x.raw, i)
				case "trun":
					return withOffset(x, int32(offset))
				}
				return x.raw
			}))...)
			all = append(all, media(t, c)...)
		}
		first, _ := firstBox(chunks[0].Data)
		moof := makeBox("moof", makeBox("mfhd", find(first.body, "mfhd")), trafs)
		if size == 0 {
			return moof
		}
		return append(moof, makeBox("mdat", all)...)
	}
	return build(len(build(0)))
}

func media(t *testing.T, c Chunk) []byte {
	t.Helper()
	m, err := firstBox(c.Data)
	require.NoError(t, err)
	d, err := firstBox(c.Data[len(m.raw):])
	require.NoError(t, err)
	require.Equal(t, "mdat", d.typ)
	return d.body
}

// frames reads the samples of a chunk with an independent parser.
func frames(t *testing.T, in *Init, c Chunk) []mp4.FullSample {
	t.Helper()
	f, err := mp4.DecodeFile(bytes.NewReader(append(bytes.Clone(in.Data), c.Data...)))
	require.NoError(t, err)
	var trex *mp4.TrexBox
	for _, x := range f.Init.Moov.Mvex.Trexs {
		if x.TrackID == c.Track {
			trex = x
		}
	}
	var out []mp4.FullSample
	for _, s := range f.Segments {
		for _, frag := range s.Fragments {
			got, err := frag.GetFullSamples(trex)
			require.NoError(t, err)
			out = append(out, got...)
		}
	}
	require.NotEmpty(t, out)
	return out
}

func TestLater(t *testing.T) {
	in, chunks := readAll(t, sample(t))
	for name, ticks := range map[string]uint64{"soon": 512, "beyond 32 bits": 1 << 33} {
		for _, old := range []Chunk{chunks[0], oldTfdt(t, in, chunks[0])} {
			t.Run(name, func(t *testing.T) {
				moved := old.Later(ticks, 4711)
				again, err := in.ParseChunk(moved.Data)
				require.NoError(t, err)
				require.Equal(t, moved, again)
				require.Equal(t, old.DecodeTime+ticks, moved.DecodeTime)
				was, is := frames(t, in, old), frames(t, in, moved)
				require.Len(t, is, len(was))
				for i := range is {
					require.Equal(t, was[i].DecodeTime+ticks, is[i].DecodeTime)
					require.Equal(t, was[i].Data, is[i].Data)
				}
				require.Equal(t, uint32(4711), binary.BigEndian.Uint32(find(moved.Data, "moof", "mfhd")[4:]))
			})
		}
	}
}

// oldTfdt gives a chunk a tfdt box of version 0, whose time has 32 bits.
func oldTfdt(t *testing.T, in *Init, c Chunk) Chunk {
	m, err := firstBox(c.Data)
	require.NoError(t, err)
	head := makeBox("moof", rewrite(m.body, func(x box) []byte {
		if x.typ != "traf" {
			return x.raw
		}
		return makeBox("traf", rewrite(x.body, func(y box) []byte {
			switch y.typ {
			case "tfdt":
				return makeBox("tfdt", make([]byte, 8))
			case "trun":
				return withOffset(y, int32(binary.BigEndian.Uint32(y.body[8:]))-4)
			}
			return y.raw
		}))
	}))
	old, err := in.ParseChunk(append(head, c.Data[len(m.raw):]...))
	require.NoError(t, err)
	return old
}

func TestJoin(t *testing.T) {
	in, chunks := readAll(t, sample(t))
	video, err := ParseInit(in.Only(1))
	require.NoError(t, err)
	audio, err := ParseInit(in.Only(2))
	require.NoError(t, err)
	both, err := Join(video, audio)
	require.NoError(t, err)
	require.Equal(t, in.Tracks, both.Tracks)
	require.Len(t, both.Data, len(in.Data))
	for _, c := range chunks[:2] {
		require.Equal(t, frames(t, in, c), frames(t, both, c))
	}
	_, err = Join(video, video)
	require.ErrorContains(t, err, "two tracks have the id 1")
}

func TestReaderErrors(t *testing.T) {
	data := sample(t)
	in, chunks := readAll(t, data)
	progressive := append(makeBox("ftyp", []byte("isom")), makeBox("mdat", []byte("media"))...)
	noMvex := rewrite(in.Data, func(x box) []byte {
		if x.typ != "moov" {
			return x.raw
		}
		return makeBox("moov", rewrite(x.body, func(y box) []byte {
			if y.typ == "mvex" {
				return nil
			}
			return y.raw
		}))
	})
	huge := append(bytes.Clone(in.Data), 0xff, 0xff, 0xff, 0xff, 'm', 'o', 'o', 'f')
	other := append(bytes.Clone(in.Data), in.Only(1)...)
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"empty":           {nil, "not fragmented MP4"},
		"text":            {[]byte("#EXTM3U\n#EXT-X-VERSION:7\n"), "not fragmented MP4"},
		"text like a box": {[]byte("#!/bin/sh\n"), "not fragmented MP4"},
		"moov at the end": {progressive, "not fragmented MP4"},
		"no mvex":         {noMvex, "not fragmented MP4"},
		"huge moof":       {huge, "the limit is"},
		"mdat first":      {append(bytes.Clone(in.Data), makeBox("mdat", nil)...), "mdat box without a moof"},
		"moof twice": {
			append(bytes.Clone(in.Data),
				bytes.Repeat(chunks[0].Data[:len(chunks[0].Data)-len(media(t, chunks[0]))-8], 2)...),
			"without an mdat",
		},
		"other init":         {other, "the init segment changes"},
		"open-ended box":     {append(bytes.Clone(in.Data), 0, 0, 0, 0, 'm', 'd', 'a', 't'), "runs to the end"},
		"track without init": {append(in.Only(1), chunks[1].Data...), "track 2 is not in the init segment"},
		"box shorter than a header": {
			append(bytes.Clone(in.Data), 0, 0, 0, 7, 'f', 'r', 'e', 'e'), "fewer than its header",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(bytes.NewReader(tt.data))
			_, err := r.Next()
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestReaderTruncatedAtEveryByte(t *testing.T) {
	data := sample(t)
	in, chunks := readAll(t, data)
	end := len(in.Data) + len(chunks[0].Data) + len(chunks[1].Data)
	ends := map[int]bool{len(in.Data): true, len(in.Data) + len(chunks[0].Data): true, end: true}
	for n := range end + 1 {
		r := NewReader(bytes.NewReader(data[:n]))
		var err error
		for err == nil {
			_, err = r.Next()
		}
		switch {
		case ends[n]:
			require.Equal(t, io.EOF, err, n)
		case n > len(in.Data):
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, n)
		default:
			require.False(t, err == io.EOF, n)
		}
	}
}

func TestTimeAndTicks(t *testing.T) {
	v := TrackInfo{Timescale: 12800}
	require.Equal(t, 40*time.Millisecond, v.Time(512))
	require.Equal(t, uint64(512), v.Ticks(40*time.Millisecond))
	require.Equal(t, uint64(1), v.Ticks(1))
	for _, ticks := range []uint64{120e12, 1<<64 - 1} {
		require.Equal(t, time.Duration(1<<63-1), v.Time(ticks))
	}
	require.Zero(t, v.Ticks(-time.Second))
}

// A box states its size in 32 or 64 bits.
func TestBoxSizes(t *testing.T) {
	const long, none = "\x00\x00\x00\x01free\x00\x00\x00\x00\x00\x00\x00", "none"
	for in, want := range map[string]string{
		"\x00\x00\x00\x08free": "", "\x00\x00\x00\x0bfreexyz": "xyz", long + "\x10": "", long + "\x13xyz": "xyz",
		long + "\x0f": none, long: none, "\x00\x00\x00\x07free": none, "\x00\x00\x00\x09free": none,
		"\x00\x00\x00\x08fre": none,
	} {
		x, err := firstBox([]byte(in))
		require.Equal(t, want == none, err != nil, "%q", in)
		require.Equal(t, strings.TrimPrefix(want, none), string(x.body))
		r := strings.NewReader(in)
		h, err := readHeader(r)
		if err == nil {
			_, err = h.readRest(r, uint64(len(in)))
		}
		require.Equal(t, want == none, err != nil, "%q in a stream", in)
	}
}

func TestLanguage(t *testing.T) {
	for code, want := range map[uint16]string{0x15c7: "eng", 0x55c4: "", 0: "", 0x95c7: ""} {
		fields := binary.BigEndian.AppendUint16(make([]byte, 8), code)
		require.Equal(t, want, language(fields, 0))
		require.Equal(t, want, language(append(make([]byte, 4), fields...), 1))
		require.Empty(t, language(fields, 1), "they are short")
	}
}

func TestCodecNames(t *testing.T) {
	for want, tt := range map[string]struct {
		kind  Kind
		entry box
	}{
		"hvc1.1.6.L93.B0": {Video, entry(78, "hvc1", "hvcC", 1, 1, 0x60, 0, 0, 0, 0xb0, 0, 0, 0, 0, 0, 93)},
		"hev1.A2.4.H120":  {Video, entry(78, "hev1", "hvcC", 1, 0x62, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 120)},
		"av01.0.04M.10":   {Video, entry(78, "av01", "av1C", 0x81, 4, 0x40)},
		"av01.2.08H.12":   {Video, entry(78, "av01", "av1C", 0x81, 0x48, 0xe0)},
		"vp09.02.31.10":   {Video, entry(78, "vp09", "vpcC", 1, 0, 0, 0, 2, 31, 0xa0)},
		"opus":            {Audio, entry(28, "Opus", "dOps", 0)},
		"ac-3":            {Audio, entry(28, "ac-3", "dac3", 0)},
		"mp4a.40.42": {
			Audio,
			entry(28, "mp4a", "esds", 0, 0, 0, 0, 3, 22, 0, 1, 0, 4, 17, 0x40, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5,
				2, 0xf9, 0x40),
		},
		"mp4a.6b": {
			Audio,
			entry(28, "mp4a", "esds", 0, 0, 0, 0, 3, 0x80, 0x80, 18, 0, 1, 0, 4, 13, 0x6b, 0x15, 0, 0, 0, 0, 0, 0, 0, 0,
				0, 0, 0),
		},
		"mp4a.69": { // with all fields that an ES descriptor may have
			Audio,
			entry(28, "mp4a", "esds", 0, 0, 0, 0, 3, 25, 0, 1, 0xe0, 9, 9, 2, 9, 9, 9, 9, 4, 13, 0x69, 0x15, 0, 0, 0, 0,
				0, 0, 0, 0, 0, 0, 0),
		},
		"xyzw": {Video, box{typ: "xyzw"}},
		"mp4a": {Audio, entry(28, "mp4a", "esds", 0, 0, 0, 0, 3, 200)},
	} {
		track := TrackInfo{Kind: tt.kind}
		track.describe(tt.entry)
		require.Equal(t, want, track.Codec)
	}
}

func entry(fields int, typ, config string, content ...byte) box {
	return box{typ: typ, body: append(make([]byte, fields), makeBox(config, content)...)}
}

func FuzzReader(f *testing.F) {
	data := sample(f)
	in, chunks := readAll(f, data)
	f.Add(append(bytes.Clone(in.Data), chunks[0].Data...))
	f.Add(append(bytes.Clone(in.Data), chunks[1].Data...))
	f.Add(append(bytes.Clone(in.Only(2)), chunks[1].Data...))
	f.Fuzz(func(t *testing.T, b []byte) { testlimit.Run(t, len(b), 1000, func() { fuzzReader(t, b) }) })
}

func fuzzReader(t *testing.T, b []byte) {
	r := NewReader(bytes.NewReader(b))
	in, err := r.Init()
	if err != nil {
		return
	}
	for _, track := range in.Tracks {
		_ = in.Only(track.ID)
	}
	_, _ = Join(in)
	_, _ = in.Renumber(map[uint32]uint32{1: 9})
	for {
		c, err := r.Next()
		if err != nil {
			return
		}
		again, err := in.ParseChunk(c.Data)
		if err != nil {
			t.Fatalf("a chunk does not parse again: %v", err)
		}
		if again.DecodeTime != c.DecodeTime || again.Samples != c.Samples || again.Duration != c.Duration {
			t.Fatalf("%+v became %+v", c, again)
		}
		_ = c.WithTrack(9)
		later := c.Later(1<<40, 9)
		if again, err = in.ParseChunk(later.Data); err != nil || again.DecodeTime != later.DecodeTime {
			t.Fatalf("moved chunk: %v", errors.Join(err, errors.New("or a wrong decode time")))
		}
	}
}

func FuzzParseChunk(f *testing.F) {
	in, chunks := readAll(f, sample(f))
	f.Add(chunks[0].Data)
	f.Add(chunks[1].Data)
	f.Add(bytes.Join([][]byte{makeBox("styp", nil), chunks[1].Data, chunks[2].Data}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		testlimit.Run(t, len(b), 100, func() {
			c, err := in.ParseChunk(b)
			if err == nil && (c.Samples > maxTracks*len(b)+maxSamples || in.Track(c.Track) == nil) {
				t.Fatalf("%+v from %d bytes", c, len(b))
			}
			if samples, samplesErr := in.Samples(b); err == nil && samplesErr == nil && len(samples) != c.Samples {
				t.Fatalf("%d samples, not %d", len(samples), c.Samples)
			}
		})
	})
}
