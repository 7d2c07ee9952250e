package rtsp

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/catalog"
	"sluice/player/client"
	"sluice/player/cmaf"
	"sluice/player/sub"
	"sluice/transport"
)

// TestShares checks that a peer gets as much as is free, and that its memory is free when it has ended.
func TestShares(t *testing.T) {
	t.Parallel()
	refused := 0
	p := newPool(1000, func() { refused++ })
	one, other := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/64")
	a, b, c := p.share(one), p.share(one), p.share(other)
	require.True(t, a.Take(300))
	require.True(t, b.Take(200))
	require.False(t, a.Take(1), "half of it")
	require.False(t, b.Take(1), "together")
	require.True(t, c.Take(250))
	require.False(t, c.Take(1), "half of the rest")
	require.EqualValues(t, 750, p.inUse())
	require.Equal(t, 3, refused)
	b.Give(100)
	require.True(t, c.Take(50))
	a.end()
	a.Give(10)
	require.False(t, a.Take(1))
	require.EqualValues(t, 400, p.inUse())
	b.end()
	c.end()
	c.end()
	require.Zero(t, p.inUse())
	require.Empty(t, p.of)
	require.True(t, (*share)(nil).Take(1<<40))
}

// TestCacheOfAnAddress has the streams of one address keep as many packets as they may. Others keep theirs.
func TestCacheOfAnAddress(t *testing.T) {
	const limit = 100 * (packetOverhead + 1500)
	pool := newPool(limit, func() {})
	publishFrom := func(source string, packets int, payload func(number uint32) []byte) *stream {
		s := newStream(broadcast(), pool.share(netip.MustParsePrefix(source)), newMetrics())
		t.Cleanup(s.close)
		for n := range uint32(packets) {
			h := rtp.Header{Version: 2, SSRC: 7, SequenceNumber: uint16(n), Timestamp: n * 3600}
			s.write(s.desc.Medias[0], &rtp.Packet{Payload: payload(n + 1), Header: h}, time.Now(), time.Now())
		}
		return s
	}
	for range 2 {
		publishFrom("192.0.2.1/32", 200, func(uint32) []byte { return make([]byte, 1400) })
	}
	require.Greater(t, pool.inUse(), int64(limit/3))
	other := publishFrom("192.0.2.2/32", 20, framePayload)
	require.Len(t, other.cache, 10)
	require.Len(t, other.tail.packets, 10)
}

// TestMemoryOfADownlink plays broadcasts that send far more than can be played: objects without ends, and objects that
// wait for others. Each ends when it has its share.
func TestMemoryOfADownlink(t *testing.T) {
	thorough.Only(t) // on a busy machine its players give up first
	t.Parallel()
	f := newFilm(t, "avc.mp4")
	in, err := cmaf.ParseInit(f.init)
	require.NoError(t, err)
	entry := catalog.TrackEntry{Name: "1.m4s", Packaging: catalog.CMAF, Role: "video", InitData: in.Only(1)}
	const part = 1 << 20
	for name, object := range map[string]moqt.ObjectHeader{
		"objects without ends": {PayloadLength: 64 << 20}, "objects that wait": {ObjectID: 1, PayloadLength: part},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newMoQ(t, nil, func(c *Config) { c.Memory = MinMemory })
			content, err := catalog.Catalog{Tracks: []catalog.TrackEntry{entry}}.MSF()
			require.NoError(t, err)
			flood := func(p *session.Publication) {
				for group := uint64(1); p.Context().Err() == nil; group++ {
					h := moqt.SubgroupHeader{GroupID: group}
					stream, err := p.OpenSubgroup(p.Context(), h)
					if err != nil {
						return
					}
					e := moqt.NewSubgroupEncoder(p.Session().Version().DataLayout(), h)
					b, _ := e.AppendObject(nil, object)
					_, _ = stream.Write(append(b, make([]byte, part)...)) // the relay may have stopped it
				}
			}
			publishRaw(t, r, moqt.Namespace{"live", "flood"}, "", trap{content: content, other: flood})
			v := view(t, s, "/live/flood")
			require.Error(t, v.client.Wait())
			require.NotZero(t, counted(t, s, "refused_memory_total"))
			eventually(t, "it is free", func() bool { return counted(t, s, "memory_bytes") == 0 })
		})
	}
}

// TestMemoryOfAnUplink publishes more by RTSP than can be fetched by MoQ. It loses its oldest objects when it has its
// share.
func TestMemoryOfAnUplink(t *testing.T) {
	t.Parallel()
	r, s := newMoQ(t, nil, func(c *Config) { c.Memory = MinMemory })
	clip := readClip(t, "avc.mp4")
	desc := &description.Session{Medias: []*description.Media{
		{Type: description.MediaTypeVideo, Formats: []format.Format{clip.format}},
	}}
	c := gortsplib.Client{Protocol: protocol(gortsplib.ProtocolTCP), WriteQueueSize: 1 << 14}
	t.Cleanup(c.Close)
	require.NoError(t, c.StartRecording(s.url(t, "/live/cam").String(), desc))
	played := make(chan struct{})
	go func() {
		defer close(played)
		_, _ = sub.Run(t.Context(), sub.PlayerConfig{
			Namespace: moqt.Namespace{"live", "cam"}, Out: io.Discard, Wait: patient, Hold: time.Millisecond,
			Client: client.SessionConfig{
				URL: "moqt://" + r.Addr().String(), Logger: slog.New(slog.DiscardHandler),
				Transport: transport.ClientConfig{Insecure: true},
			},
		}, nil) // it may lose objects
	}()
	filler := binary.BigEndian.AppendUint32(nil, 1<<18)
	filler = append(append(filler, 12), make([]byte, 1<<18-1)...)
	for i := 0; counted(t, s, "refused_memory_total") == 0; i++ { // one group
		packets, err := clip.packets(append(bytes.Clone(clip.frames[min(i, 1)]), filler...))
		require.NoError(t, err)
		for _, p := range packets {
			p.Timestamp = uint32(3000 * i)
			require.NoError(t, c.WritePacketRTP(desc.Medias[0], p))
		}
		require.LessOrEqual(t, counted(t, s, "memory_bytes"), float64(MinMemory))
	}
	c.Close()
	<-played
	eventually(t, "it is free", func() bool { return counted(t, s, "memory_bytes") == 0 })
}

// TestMemoryOfAReader checks that a chunk that is incomplete counts.
func TestMemoryOfAReader(t *testing.T) {
	t.Parallel()
	p := newPool(1<<20, func() {})
	s := newServer(t)
	d := &downlink{server: s, ready: make(chan struct{}), share: p.share(netip.MustParsePrefix("192.0.2.1/32"))}
	f := newFilm(t, "avc.mp4")
	size := bytes.Index(f.chunks[0], []byte("mdat")) - 4
	endless := binary.BigEndian.AppendUint32(nil, 32<<20)
	endless = append(append(endless, "mdat"...), make([]byte, 2<<20)...)
	err := d.read(bytes.NewReader(slices.Concat(f.init, f.chunks[0][:size], endless)))
	require.ErrorIs(t, err, errNoMemory)
	require.LessOrEqual(t, p.inUse(), int64(1<<19))
	d.share.end()
	require.Zero(t, p.inUse())
}
