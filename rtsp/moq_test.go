package rtsp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/av1"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/mpeg4audio"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
	"sluice/player/client"
	"sluice/player/cmaf"
	"sluice/player/loc"
	"sluice/player/sub"
	"sluice/relay"
	"sluice/server"
	"sluice/transport"
)

// newMoQ returns a whole relay that an Authorizer guards, unless that is nil, and an RTSP server beside it.
func newMoQ(t *testing.T, guard relay.Authorizer, options ...func(*Config)) (*server.Server, *Server) {
	t.Helper()
	return newMoQBehind(t, guard, server.UpstreamConfig{}, options...)
}

// newMoQBehind is newMoQ for a relay that has upstream relays.
func newMoQBehind(
	t *testing.T, guard relay.Authorizer, upstream server.UpstreamConfig, options ...func(*Config),
) (*server.Server, *Server) {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg := server.Config{Listen: "127.0.0.1:0", Upstream: upstream, Logger: slog.New(slog.DiscardHandler)}
	cfg.Transport.Certificate, cfg.FastPath.Mode, cfg.Relay.Authorizer = &cert, server.FastPathOff, guard
	cfg.Relay.Linger = time.Millisecond
	s, err := server.Listen(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
		require.NoError(t, s.Drain("", time.Second))
	})
	options = append(options, func(c *Config) {
		c.Relay, c.Dial, c.DialOwn, c.Hold = s.Relay(), s.DialFor, s.DialOwn, patient
	})
	return s, newServer(t, options...)
}

// clip is a video, and how it becomes RTP.
type clip struct {
	format  format.Format
	packets func(frame []byte) ([]*rtp.Packet, error)
	frames  [][]byte
	times   []int64 // of presentation, in 90,000 per second
}

func readClip(t *testing.T, name string) *clip {
	t.Helper()
	file, err := os.Open("../player/loc/testdata/" + name)
	require.NoError(t, err)
	defer file.Close()
	info, samples := readVideo(t, file)
	c := &clip{}
	for _, s := range samples {
		c.frames = append(c.frames, s.Data)
		c.times = append(c.times, (int64(s.DecodeTime)+int64(s.Offset))*90_000/int64(info.Timescale))
	}
	var sets h264.AVCC
	if b := loc.ParameterSets(info.Codec, info.Config); b != nil {
		require.NoError(t, sets.Unmarshal(b))
	}
	switch name {
	case "avc.mp4":
		f := &format.H264{PayloadTyp: 96, PacketizationMode: 1, SPS: sets[0], PPS: sets[1]}
		e, err := f.CreateEncoder()
		require.NoError(t, err)
		c.format, c.packets = f, func(frame []byte) ([]*rtp.Packet, error) { return e.Encode(nalsOf(t, frame)) }
	case "hevc.mp4":
		f := &format.H265{PayloadTyp: 96, VPS: sets[0], SPS: sets[1], PPS: sets[2]}
		e, err := f.CreateEncoder()
		require.NoError(t, err)
		c.format, c.packets = f, func(frame []byte) ([]*rtp.Packet, error) { return e.Encode(nalsOf(t, frame)) }
	case "av1.mp4":
		f := &format.AV1{PayloadTyp: 96}
		e, err := f.CreateEncoder()
		require.NoError(t, err)
		c.format, c.packets = f, func(frame []byte) ([]*rtp.Packet, error) {
			var obus av1.Bitstream
			require.NoError(t, obus.Unmarshal(frame))
			return e.Encode(obus)
		}
	}
	return c
}

func nalsOf(t *testing.T, frame []byte) [][]byte {
	t.Helper()
	var nals h264.AVCC
	require.NoError(t, nals.Unmarshal(frame))
	return nals
}

// readVideo returns the samples of the first video track.
func readVideo(t *testing.T, r io.Reader) (cmaf.TrackInfo, []cmaf.Sample) {
	t.Helper()
	return readTrack(t, r, cmaf.Video)
}

// readTrack returns the samples of the first track of a kind.
func readTrack(t *testing.T, r io.Reader, kind cmaf.Kind) (cmaf.TrackInfo, []cmaf.Sample) {
	t.Helper()
	in := cmaf.NewReader(r)
	init, err := in.Init()
	require.NoError(t, err)
	var all []cmaf.Sample
	for _, track := range init.Tracks {
		if track.Kind != kind {
			continue
		}
		for {
			c, err := in.Next()
			if errors.Is(err, io.EOF) {
				return track, all
			}
			require.NoError(t, err)
			if c.Track == track.ID {
				samples, err := init.Samples(c.Data)
				require.NoError(t, err)
				all = append(all, samples...)
			}
		}
	}
	t.Fatal("no such track")
	return cmaf.TrackInfo{}, nil
}

// sounds are formats of sound, one for each clip.
var sounds = map[string]format.Format{
	"avc.mp4": &format.MPEG4Audio{
		PayloadTyp: 97, SizeLength: 13, IndexLength: 3, IndexDeltaLength: 3, Config: &mpeg4audio.AudioSpecificConfig{
			Type: mpeg4audio.ObjectTypeAACLC, SampleRate: 48000, ChannelConfig: 2,
		},
	},
	"hevc.mp4": &format.Opus{PayloadTyp: 97, ChannelCount: 2},
	"av1.mp4":  &format.Opus{PayloadTyp: 97, ChannelCount: 1},
}

// TestBroadcasts publishes by RTSP and plays the MoQ broadcast: it has the same frames, byte for byte.
func TestBroadcasts(t *testing.T) {
	t.Parallel()
	for name, sound := range sounds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			relay, s := newMoQ(t, nil)
			clip := readClip(t, name)
			desc := &description.Session{Medias: []*description.Media{
				{Type: description.MediaTypeVideo, Formats: []format.Format{clip.format}},
				{Type: description.MediaTypeAudio, Formats: []format.Format{sound}},
			}}
			c := gortsplib.Client{Protocol: protocol(gortsplib.ProtocolTCP)}
			t.Cleanup(c.Close)
			require.NoError(t, c.StartRecording(s.url(t, "/live/cam").String(), desc))
			played := make(chan error, 1)
			var out bytes.Buffer
			var objects atomic.Uint64
			cfg := sub.PlayerConfig{
				Namespace: moqt.Namespace{"live", "cam"}, Out: &out, Wait: patient, Join: 1000,
				Client: client.SessionConfig{
					URL: "moqt://" + relay.Addr().String(), Logger: slog.New(slog.DiscardHandler),
					Transport: transport.ClientConfig{Insecure: true},
				},
			}
			go func() {
				_, err := sub.Run(t.Context(), cfg, func(p sub.Progress) { objects.Store(p.Objects) })
				played <- err
			}()
			clip.send(t, &c, desc)
			eventually(t, "half of it is played", func() bool { return objects.Load() >= uint64(len(clip.frames)) })
			c.Close()
			require.NoError(t, <-played)
			track, got := readVideo(t, bytes.NewReader(out.Bytes()))
			require.Len(t, got, len(clip.frames))
			for i, sample := range got {
				require.True(t, bytes.Equal(clip.frames[i], sample.Data), "frame %d", i)
				at := (int64(sample.DecodeTime) + int64(sample.Offset)) * 90_000 / int64(track.Timescale)
				first := int64(got[0].DecodeTime) + int64(got[0].Offset)
				require.Equal(t, clip.times[i]-clip.times[0], at-first*90_000/int64(track.Timescale), "frame %d", i)
			}
			_, heard := readTrack(t, &out, cmaf.Audio)
			require.Len(t, heard, len(clip.frames))
			for i, sample := range heard {
				want := soundPayload(i)
				if name == "avc.mp4" {
					want = want[aacHeader:]
				}
				require.Equal(t, want, sample.Data, "sound %d", i)
			}
		})
	}
}

// send sends the clip, with a frame of sound for each of its frames.
func (c *clip) send(t *testing.T, to *gortsplib.Client, desc *description.Session) {
	t.Helper()
	c.sendPart(t, to, desc, 0, len(c.frames))
}

// sendPart sends the frames from first to before end, with sound in each other media. It returns the number of packets.
func (c *clip) sendPart(t *testing.T, to *gortsplib.Client, desc *description.Session, first, end int) (sent int) {
	t.Helper()
	for i := first; i < end; i++ {
		packets, err := c.packets(c.frames[i])
		require.NoError(t, err)
		for _, p := range packets {
			p.Timestamp = uint32(c.times[i])
			require.NoError(t, to.WritePacketRTP(desc.Medias[0], p))
		}
		for _, m := range desc.Medias[1:] {
			header := rtp.Header{Version: 2, Marker: true, SequenceNumber: uint16(i), Timestamp: uint32(i * 1024)}
			header.PayloadType = m.Formats[0].PayloadType()
			require.NoError(t, to.WritePacketRTP(m, &rtp.Packet{Header: header, Payload: soundPayload(i)}))
		}
		sent += len(packets) + len(desc.Medias) - 1
	}
	return sent
}

// soundPayload is one access unit of AAC, behind a header, with the number of its frame. Any bytes are Opus, or G.711.
func soundPayload(number int) []byte {
	return append([]byte{0, 16, 0, 4 << 3, 1, 2, 3}, byte(number))
}

const aacHeader = 4 // bytes before the access unit

// FuzzFrames takes any packets apart, of formats with any parameter sets and lengths.
func FuzzFrames(f *testing.F) {
	formats := func(set []byte, size, index, delta uint8) []format.Format {
		return []format.Format{
			&format.H264{PacketizationMode: 1}, &format.H264{PacketizationMode: 1, SPS: set, PPS: set},
			&format.H265{}, &format.H265{VPS: set, SPS: set, PPS: set}, &format.AV1{},
			aac(int(size), int(index), int(delta)), sounds["av1.mp4"],
		}
	}
	for i := range formats(nil, 0, 0, 0) {
		add := func(first, second []byte, marker bool) {
			f.Add(uint8(i), uint8(13), uint8(3), uint8(3), first, second, marker)
		}
		add([]byte{0x67, 0x64, 0, 0x1e, 0xac, 0xd9, 0x40, 0xa0, 0x2f, 0xf9}, []byte{0x65, 1}, true)
		add(framePayload(1), framePayload(2), true)
		add([]byte{28, 0x85, 1, 2}, []byte{28, 0x45, 3}, true)
		add([]byte{0, 16, 0, 4 << 3, 1, 2, 3, 4}, []byte{0x10, 1 << 3, 0}, false)
	}
	f.Add(uint8(5), uint8(64), uint8(0), uint8(0), hugeUnit, hugeUnit, true)
	f.Fuzz(func(t *testing.T, i, size, index, delta uint8, first, second []byte, marker bool) {
		testlimit.Run(t, len(first)+len(second), 1000, func() {
			all := formats(first, size, index, delta)
			frames := newFrames(1, all[int(i)%len(all)], &budget{max: maxHeldInAll})
			if frames == nil {
				return
			}
			for n, payload := range [][]byte{first, second, first} {
				p := &rtp.Packet{Payload: payload, Header: rtp.Header{SequenceNumber: uint16(n), Marker: marker}}
				for _, chunk := range frames.add(p, int64(n)) {
					require.NotEmpty(t, chunk)
				}
			}
			if frames.ready() {
				_, _ = frames.mux.Init() // a parameter set may be broken
			}
		})
	})
}

// aac returns a format of AAC with the lengths in bits of its headers' fields.
func aac(size, index, delta int) *format.MPEG4Audio {
	f := *sounds["avc.mp4"].(*format.MPEG4Audio)
	f.SizeLength, f.IndexLength, f.IndexDeltaLength = size, index, delta
	return &f
}

// hugeUnit says that its access unit has 2^64-1 bytes, in a field of 64 bits.
var hugeUnit = []byte{0, 64, 255, 255, 255, 255, 255, 255, 255, 255, 1, 2}

// TestLengthsOfAAC checks that formats that make the decoder panic are not taken apart.
func TestLengthsOfAAC(t *testing.T) {
	t.Parallel()
	for _, f := range []*format.MPEG4Audio{aac(0, 0, 0), aac(64, 0, 0), aac(13, 64, 3), aac(13, 3, 64)} {
		require.Nil(t, newFrames(1, f, &budget{max: maxHeldInAll}))
	}
	require.NotNil(t, newFrames(1, aac(13, 3, 3), &budget{max: maxHeldInAll}))
}

// TestPanic checks that a panic about a packet ends its broadcast, and all that waits for it, and is counted.
func TestPanic(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	desc := broadcast()
	in, out := io.Pipe()
	u := newUplink(desc, out, nil)
	p := &publisher{server: s, lift: newLift(newStream(desc, nil, s.metrics), u, s.lifts)}
	u.order[0].unpack = func(*rtp.Packet) [][]byte { panic("a bug") }
	packet := arrival{media: desc.Medias[0], rtp: &rtp.Packet{}}
	begun, waiting := &resumption{done: make(chan struct{})}, &resumption{done: make(chan struct{})}
	begun.packets = []arrival{packet}
	u.queue <- arrival{resume: begun}
	for range 2 {
		require.True(t, u.offer(packet))
	}
	u.queue <- arrival{resume: waiting}
	go p.runUplink()
	_, err := io.ReadAll(in)
	require.ErrorIs(t, err, errNothing)
	eventually(t, "all are counted", func() bool { return counted(t, s, "ignored_packets_total", ignoredFailed) == 3 })
	for _, r := range []*resumption{begun, waiting} {
		<-r.done // nobody waits for it
	}
	require.False(t, p.lift.works())
	p.lift.close()
}

// TestUnfinishedFrames checks that a decoder does not keep ever more packets: of a frame that has no end, or of parts
// between whole frames that belong to none.
func TestUnfinishedFrames(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		format      format.Format
		start, goOn []byte
		frame       []byte // comes after each part
	}{
		"H.264": {format: &format.H264{PacketizationMode: 1}, start: []byte{0x7c, 0x85, 1}, goOn: []byte{0x7c, 5}},
		"H.265": {format: &format.H265{}, start: []byte{0x62, 1, 0x81, 1}, goOn: []byte{0x62, 1, 1}},
		"AV1":   {format: &format.AV1{}, start: []byte{0x50, 1}, goOn: []byte{0x50, 1}},
		"H.265 between frames": {
			format: &format.H265{}, start: []byte{0x62, 1, 0x81, 1}, goOn: []byte{0x62, 1, 1}, frame: []byte{2, 1, 1},
		},
		"AV1 between frames": {
			format: &format.AV1{}, start: []byte{0x50, 1}, goOn: []byte{0x50, 1}, frame: []byte{0x10, 0x30, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrames(1, test.format, &budget{max: maxHeldInAll})
			var all []weak.Pointer[byte]
			take := func(i int, marker bool, b []byte) [][]byte {
				b = received(b...)
				all = append(all, weak.Make(&b[0]))
				return f.take(&rtp.Packet{Payload: b, Header: rtp.Header{SequenceNumber: uint16(i), Marker: marker}})
			}
			take(0, false, test.start)
			for i := range 2 * maxHeldPackets {
				take(i+1, false, test.goOn)
				if test.frame != nil {
					require.NotEmpty(t, take(i+1, true, test.frame))
				}
			}
			runtime.GC()
			alive := 0
			for _, p := range all {
				if p.Value() != nil {
					alive++
				}
			}
			require.Less(t, alive, maxHeldPackets)
			runtime.KeepAlive(f)
		})
	}
}

// TestUnfinishedFramesInAll checks that the decoders of a publisher share a limit, and give back their bytes.
func TestUnfinishedFramesInAll(t *testing.T) {
	t.Parallel()
	room := &budget{max: maxHeldInAll}
	var all []*frames
	for range 3 {
		all = append(all, newFrames(1, &format.H264{PacketizationMode: 1}, room))
	}
	sequence := uint16(0)
	take := func(f *frames, marker bool, b ...byte) [][]byte {
		payload := make([]byte, len(b), 60<<10) // as in a packet from a TCP connection
		copy(payload, b)
		sequence++
		return f.take(&rtp.Packet{Payload: payload, Header: rtp.Header{SequenceNumber: sequence, Marker: marker}})
	}
	for _, f := range all {
		take(f, false, 0x7c, 0x85, 1)
		for range maxHeldBytes / (64 << 10) {
			take(f, false, 0x7c, 5)
		}
		require.LessOrEqual(t, room.used.Load(), int64(maxHeldInAll))
	}
	require.Greater(t, room.used.Load(), int64(maxHeldInAll-maxHeldBytes), "the limit was reached")
	for _, f := range all[:2] {
		require.NotEmpty(t, take(f, true, 0x65, 1))
	}
	for _, f := range all {
		f.renew()
	}
	require.Zero(t, room.used.Load())
	require.NotEmpty(t, take(all[2], true, 0x65, 1))
}

// TestFullUplink checks that packets beyond the queue are refused, and do not wait.
func TestFullUplink(t *testing.T) {
	t.Parallel()
	desc := broadcast()
	_, out := io.Pipe() // nobody reads
	u := newUplink(desc, out, nil)
	p := &rtp.Packet{Payload: framePayload(1)}
	for range uplinkQueue {
		require.True(t, u.offer(arrival{media: desc.Medias[0], rtp: p}))
	}
	require.False(t, u.offer(arrival{media: desc.Medias[0], rtp: p}))
}

// TestFullUplinkOfLargePackets checks that the queue has a limit in bytes, too.
func TestFullUplinkOfLargePackets(t *testing.T) {
	t.Parallel()
	desc := broadcast()
	in, out := io.Pipe()
	u := newUplink(desc, out, nil)
	large := arrival{
		media: desc.Medias[0], rtp: &rtp.Packet{Payload: append(framePayload(2), make([]byte, 60<<10)...)},
	}
	taken := 0
	for u.offer(large) {
		taken++
	}
	require.Less(t, taken, uplinkQueue)
	require.LessOrEqual(t, taken*memory(large.rtp), uplinkQueueBytes)
	require.NoError(t, in.Close())
	for range taken {
		_, err := u.step()
		require.NoError(t, err)
	}
	require.True(t, u.offer(large), "there is room again")
}

// TestEarlyPackets checks that few packets of a frame wait for its first slice, and no large ones.
func TestEarlyPackets(t *testing.T) {
	t.Parallel()
	var c clock
	early := func(timestamp uint32, size int) int {
		c.keep(&rtp.Packet{Header: rtp.Header{Timestamp: timestamp}, Payload: make([]byte, size)})
		return len(c.early)
	}
	for i := range maxEarlyPackets {
		require.Equal(t, i+1, early(1, 10))
	}
	require.Equal(t, 1, early(1, 10), "too many: the frame is lost")
	require.Equal(t, 1, early(1, maxEarlyPacket), "too large")
	require.Equal(t, 1, early(2, 10), "another frame")
	require.Equal(t, 2, early(2, 10))
}

// TestLateMedia checks that a broadcast begins without a media that does not come, and keeps few chunks until then.
func TestLateMedia(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		u := newUplink(broadcast(), out, nil)
		audio, video := u.media(t, description.MediaTypeAudio), u.media(t, description.MediaTypeVideo)
		var got bytes.Buffer
		read := make(chan error)
		go func() {
			_, err := got.ReadFrom(in)
			read <- err
		}()
		step := func() bool {
			more, err := u.step()
			require.NoError(t, err)
			return more
		}
		for _, m := range []*description.Media{audio, video} { // no picture is complete
			for i := range 2 * maxEarly {
				p := &rtp.Packet{Payload: []byte{0x41, 2, 3}}
				require.True(t, u.offer(arrival{media: m, rtp: p, at: int64(i * 960)}))
				require.True(t, step())
			}
		}
		require.False(t, u.begun.Load())
		require.Len(t, u.chunks, maxEarly)
		time.Sleep(startWait)
		require.True(t, step(), "without another packet")
		require.True(t, u.begun.Load())
		require.Empty(t, u.chunks)
		require.True(t, u.offer(arrival{media: video, rtp: &rtp.Packet{Payload: framePayload(1)}}))
		require.True(t, step())
		require.False(t, u.tracks[video].ready(), "it is left out")
		close(u.queue)
		require.False(t, step())
		require.NoError(t, out.Close())
		require.NoError(t, <-read)
		init, err := cmaf.NewReader(&got).Init()
		require.NoError(t, err)
		require.Len(t, init.Tracks, 1)
		require.Equal(t, "opus", init.Tracks[0].Codec)
	})
}

// TestTimeGoesBack checks that a broadcast goes on when the publisher's times begin again, with sound and picture as
// far from each other as they are for the publisher.
func TestTimeGoesBack(t *testing.T) {
	t.Parallel()
	u := newUplink(broadcast(), nil, nil)
	video := u.tracks[u.media(t, description.MediaTypeVideo)]
	audio := u.tracks[u.media(t, description.MediaTypeAudio)]
	at := func(f *frames, ms int64) int64 { // in ms, as the result
		return u.time(f, ms*int64(f.rate)/1000) * 1000 / int64(f.rate)
	}
	require.EqualValues(t, 0, at(video, 0))
	require.EqualValues(t, 40, at(audio, 40))
	require.EqualValues(t, 60_000, at(video, 60_000))
	require.EqualValues(t, 59_900, at(video, 59_900), "a frame that is reordered")
	require.EqualValues(t, 50_000, at(audio, 50_000), "sound that has ended before")

	require.EqualValues(t, 60_000, at(video, 0), "after PAUSE and RECORD")
	require.EqualValues(t, 60_100, at(audio, 100), "the same shift")
	require.EqualValues(t, 60_200, at(video, 200))

	require.EqualValues(t, 70_000, at(video, 10_000))
	require.EqualValues(t, 70_000, at(audio, 10_000))
	require.EqualValues(t, 70_000, at(audio, 5_000), "a jump of one clock")
	require.EqualValues(t, 70_040, at(audio, 5_040))
	require.EqualValues(t, 70_040, at(video, 10_040), "the other goes on")

	require.EqualValues(t, 70_040, at(video, 0), "again")
	require.EqualValues(t, 70_080, at(audio, 40))
}

// TestEarlyBytes checks that chunks before the beginning have a limit in bytes.
func TestEarlyBytes(t *testing.T) {
	t.Parallel()
	_, out := io.Pipe()
	u := newUplink(broadcast(), out, nil)
	for i := range 20 {
		u.write(make([]byte, maxEarlyBytes/8))
		require.Equal(t, min(i+1, 8), len(u.chunks)) // not Len, which prints them
	}
	u.write(make([]byte, maxEarlyBytes+1))
	require.Empty(t, u.chunks)
	require.Zero(t, u.early.used.Load())
}

func (u *uplink) media(t *testing.T, kind description.MediaType) *description.Media {
	t.Helper()
	for m := range u.tracks {
		if m.Type == kind {
			return m
		}
	}
	t.Fatal("no such media")
	return nil
}
