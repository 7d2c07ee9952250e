package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp"

	"sluice/lab/sim"
)

// RTSP is a broadcast that somebody publishes at relay 1 by RTSP, beside the media.
type RTSP struct {
	Frames, Group uint64        // of the picture, and how many are a group; each comes with some frames of sound
	Pause         time.Duration // behind each
	Link          sim.Link
	Dies          uint64  `json:",omitempty"` // the frame before which the publisher vanishes; 0: none
	Guests        []Guest // who play it
	Rude          []time.Duration
}

// Guest is who plays the broadcast, by RTSP or by MoQ.
type Guest struct {
	Number, Relay int
	Joins         time.Duration
	Leaves        time.Duration `json:",omitempty"` // 0: the guest stays
	Dies          bool          `json:",omitempty"` // in place of leaving
	Stalls, Lasts time.Duration `json:",omitempty"` // when a guest by RTSP does not read; 0: never
	Client
}

// isAt reports whether the publisher or a guest is at a relay. It may be called on nil.
func (r *RTSP) isAt(relay int) bool {
	return r != nil && (relay == 1 || slices.ContainsFunc(r.Guests, func(g Guest) bool { return g.Relay == relay }))
}

// rtspScheme is the scheme of guests that play by RTSP.
const rtspScheme = "rtsp"

// guests has guests publish and play by RTSP. No relay of theirs ends, since RTSP has no word for moving.
func (g *generator) guests(rng *rand.Rand) {
	ends := func(m Mishap) bool { return m.What == Upgrade || m.What == Drain }
	if g.Drop != "" || g.Limits != (Limits{}) || slices.ContainsFunc(g.Mishaps, ends) {
		return
	}
	r := &RTSP{Group: 10 + rng.Uint64N(40), Pause: time.Duration(20+rng.IntN(30)) * time.Millisecond}
	r.Link = sim.Link{Delay: time.Duration(1+rng.IntN(60)) * time.Millisecond, Loss: 0.01 * rng.Float64()}
	r.Frames = uint64(g.length() / r.Pause)
	if rng.IntN(3) == 0 {
		r.Dies = r.Frames/2 + rng.Uint64N(r.Frames/2)
	}
	for number := range 1 + rng.IntN(4) {
		v := &g.Viewers[rng.IntN(len(g.Viewers))]
		one := Guest{Number: number + 1, Relay: []int{1, g.relayOf(v)}[rng.IntN(2)], Client: v.Client}
		one.Joins = 3*time.Second + time.Duration(rng.Int64N(int64(g.length()/2)))
		if one.Stays = false; rng.IntN(2) == 0 {
			one.Scheme = rtspScheme
			if rng.IntN(2) == 0 {
				one.Stalls = time.Second + time.Duration(rng.Int64N(int64(5*time.Second)))
				one.Lasts = 4*time.Second + time.Duration(rng.Int64N(int64(8*time.Second)))
			}
		} else { // the broadcast has no timeouts: on a poor link the backlog would grow, until the player skips it
			one.Link.Rate, one.Link.Queue, one.Link.Burst = 0, 0, sim.Burst{}
			one.Link.Loss, one.Link.Corrupt = min(one.Link.Loss, carries(one.Link.Delay)), 0
		}
		if rng.IntN(3) == 0 {
			one.Leaves, one.Dies = one.Joins+time.Duration(rng.Int64N(int64(10*time.Second))), rng.IntN(2) == 0
		}
		one.Streams = 0
		r.Guests = append(r.Guests, one)
	}
	for range rng.IntN(3) {
		r.Rude = append(r.Rude, time.Duration(rng.Int64N(int64(g.length()))))
	}
	g.RTSP = r
}

// carries returns how much loss a guest by MoQ may have. What congestion control sends on a link falls with its delay
// and the root of its loss: with a delay of 92 ms and 1 % players gave up objects, with 30 ms or 0.3 % they did not.
func carries(delay time.Duration) float64 {
	short := float64(30*time.Millisecond) / float64(max(delay, 30*time.Millisecond))
	return 0.01 * short * short
}

// rtspPort is the TCP port of relays for RTSP.
const rtspPort = 554

// ports opens the TCP ports of a relay. It implements [rtsp.Listener].
type ports struct{ net *sim.Network }

func (p ports) Listen(_ context.Context, _, address string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	l, err := p.net.ListenTCP(at)
	return l, err
}

func (ports) ListenPacket(context.Context, string, string) (net.PacketConn, error) {
	return nil, errors.New("RTP by UDP is not simulated")
}

// rtspClient returns a client at a host, whose media is on its TCP connection. It stays while nothing comes for longer
// than package sub holds what follows a missing object, and the guest reads nothing.
func (s *service) rtspClient(host int) *gortsplib.Client {
	tcp := gortsplib.ProtocolTCP
	return &gortsplib.Client{
		Protocol: &tcp, WriteQueueSize: 1024, ReadTimeout: 2 * inTime,
		DialContext: func(ctx context.Context, _, to string) (net.Conn, error) {
			return s.dialRTSP(ctx, host, to)
		},
	}
}

func (s *service) dialRTSP(ctx context.Context, host int, to string) (net.Conn, error) {
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		return nil, err
	}
	c, err := s.net.DialTCP(ctx, sim.Host(host), at)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func rtspURL(relay int) *base.URL {
	u, err := base.ParseURL(fmt.Sprintf("rtsp://%v:%d/%s", sim.Host(relay), rtspPort, guestNamespace))
	if err != nil {
		panic(err) // it is written here
	}
	return u
}

// guestNamespace is the namespace of the broadcast.
const guestNamespace = "camera"

// picture returns the format of the picture, with the parameter sets of a camera.
func picture() *format.H264 {
	return &format.H264{
		PayloadTyp: 96, PacketizationMode: 1, PPS: []byte{0x68, 0xeb, 0xe3, 0xcb, 0x22, 0xc0},
		SPS: []byte{
			0x67, 0x64, 0, 0x1e, 0xac, 0xd9, 0x40, 0xa0, 0x2f, 0xf9, 0x61, 0, 0, 3, 0, 1, 0, 0, 3, 0, 0x3c, 0x8f, 0x16,
			0x2d, 0x96,
		},
	}
}

// broadcast is the publisher's part of RTSP while it is lived through, and the guests'.
type broadcast struct {
	*RTSP
	life *life
	all  sync.WaitGroup

	mu     sync.Mutex
	sent   []time.Time // when each frame was published
	guests []*guest

	excuses [2]map[int]int // by kind and relay: how many groups its guests by RTSP lack the rest of
}

// newBroadcast has guests publish and play by RTSP, if the schedule has some.
func newBroadcast(l *life) *broadcast {
	b := &broadcast{RTSP: l.RTSP, life: l, excuses: [2]map[int]int{make(map[int]int), make(map[int]int)}}
	if l.RTSP != nil {
		b.begin()
	}
	return b
}

// begin has the publisher publish, guests come and go, and rude clients send half requests.
func (b *broadcast) begin() {
	host := b.life.host(1, Client{Link: b.Link})
	client := b.life.rtspClient(host)
	desc := &description.Session{Medias: []*description.Media{
		{Type: description.MediaTypeVideo, Formats: []format.Format{picture()}},
		{Type: description.MediaTypeAudio, Formats: []format.Format{&format.Opus{PayloadTyp: 97, ChannelCount: 2}}},
	}}
	b.life.check(client.StartRecording(rtspURL(1).String(), desc))
	b.all.Go(func() { b.publish(client, desc, host) })
	for i := range b.Guests {
		b.all.Go(func() { b.live(&b.Guests[i]) })
	}
	for i, at := range b.Rude {
		b.all.Go(func() {
			time.Sleep(at)
			b.rude(i)
		})
	}
}

// publish publishes all frames, and leaves when they have arrived.
func (b *broadcast) publish(c *gortsplib.Client, desc *description.Session, host int) {
	defer c.Close()
	video, err := picture().CreateEncoder()
	b.life.check(err)
	for number := range b.Frames {
		if b.Dies != 0 && number == b.Dies {
			b.life.note("the publisher by RTSP vanishes before frame %d", number)
			b.life.net.Kill(sim.Host(host))
			return
		}
		packets, err := video.Encode([][]byte{b.frame(number)})
		b.life.check(err)
		b.mu.Lock()
		b.sent = append(b.sent, time.Now())
		b.mu.Unlock()
		elapsed := uint32(time.Duration(number) * b.Pause / time.Millisecond)
		for _, p := range packets {
			p.Timestamp = elapsed * 90
			err = c.WritePacketRTP(desc.Medias[0], p)
			b.life.check(err)
		}
		for n := number * sounds; n < (number+1)*sounds; n++ {
			b.life.check(c.WritePacketRTP(desc.Medias[1], &rtp.Packet{
				Header: rtp.Header{
					Version: 2, PayloadType: 97, SequenceNumber: uint16(n), Timestamp: elapsed*48 + uint32(n%sounds),
				},
				Payload: b.sound(n),
			}))
		}
		time.Sleep(b.Pause)
	}
	time.Sleep(inTime)
}

// rude connects, sends what no server grants or the beginning of a request, and leaves or says no more.
func (b *broadcast) rude(n int) {
	host := b.life.host(1, Client{Link: b.Link})
	c, err := b.life.dialRTSP(b.life.t.Context(), host, rtspURL(1).Host)
	if err != nil {
		return
	}
	b.life.note("somebody sends half a request")
	texts := []string{
		"DESCRIBE rtsp://x/camera RTS",
		"ANNOUNCE rtsp://x/camera RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 400\r\n\r\nv=0",
		"$\x00\xff\xff\x01", "GET / HTTP/1.1\r\n\r\n",
		"RECORD rtsp://x/camera RTSP/1.0\r\nCSeq: 1\r\nSession: 1\r\n\r\n",
		"SETUP rtsp://x/camera/trackID=0 RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP/TCP;interleaved=0-1\r\n\r\n",
	}
	_, _ = c.Write([]byte(texts[(int(b.life.Seed%997)+n)%len(texts)])) // the server may close it
	if n%2 == 0 {
		time.Sleep(2 * time.Minute)
	}
	_ = c.Close()
}
