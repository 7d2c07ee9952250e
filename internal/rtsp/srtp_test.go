package rtsp

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/bluenviron/gortsplib/v5/pkg/format/rtph264"
	"github.com/bluenviron/gortsplib/v5/pkg/headers"
	"github.com/bluenviron/gortsplib/v5/pkg/mikey"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"
)

// secureServer has both addresses, and UDP ports for both.
type secureServer struct {
	*Server
	t    *testing.T
	conf *tls.Config // of clients
	log  *lockedBuffer
}

// lockedBuffer may be written to by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newSecureServer(t *testing.T, options ...func(*Config)) *secureServer {
	t.Helper()
	w := &secureServer{t: t, log: new(lockedBuffer)}
	w.Server, w.conf = newTLSServer(t, append(options, func(c *Config) {
		c.SRTPAddress = "any"
		c.Logger = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})...)
	return w
}

func (w *secureServer) url(path string) *base.URL {
	u, err := base.ParseURL("rtsps://" + w.TLSAddr().String() + path)
	require.NoError(w.t, err)
	return u
}

// tap sees the datagrams of a client, and may change them, drop them (nil) or keep copies.
type tap struct {
	*net.UDPConn
	out, in func([]byte) []byte // nil: as they are
}

func (c *tap) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.out != nil {
		changed := c.out(bytes.Clone(b))
		if changed == nil {
			return len(b), nil
		}
		return c.UDPConn.WriteTo(changed, to)
	}
	return c.UDPConn.WriteTo(b, to)
}

func (c *tap) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.UDPConn.ReadFrom(b)
		if err != nil || c.in == nil {
			return n, from, err
		}
		if changed := c.in(bytes.Clone(b[:n])); changed != nil {
			return copy(b, changed), from, nil
		}
	}
}

// tapped returns what makes taps for the ports of a client.
func tapped(out, in func([]byte) []byte) func(network, address string) (net.PacketConn, error) {
	return func(network, address string) (net.PacketConn, error) {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			return nil, err
		}
		return &tap{c.(*net.UDPConn), out, in}, nil
	}
}

// publish publishes by SRTP over UDP, unless the options say something else.
func (w *secureServer) publish(path string, options ...func(*gortsplib.Client)) *sender {
	w.t.Helper()
	c := &sender{t: w.t, client: &gortsplib.Client{TLSConfig: w.conf}, desc: broadcast()}
	for _, o := range options {
		o(c.client)
	}
	require.NoError(w.t, c.client.StartRecording(w.url(path).String(), c.desc))
	w.t.Cleanup(c.client.Close)
	return c
}

func (w *secureServer) play(path string, options ...func(*gortsplib.Client)) *receiver {
	w.t.Helper()
	u := w.url(path)
	c := &receiver{
		t: w.t, client: &gortsplib.Client{TLSConfig: w.conf, Scheme: u.Scheme, Host: u.Host},
		packets: make(map[description.MediaType][]*rtp.Packet),
	}
	for _, o := range options {
		o(c.client)
	}
	require.NoError(w.t, c.client.Start())
	w.t.Cleanup(c.client.Close)
	var err error
	c.desc, _, err = c.client.Describe(u)
	require.NoError(w.t, err)
	require.NoError(w.t, c.client.SetupAll(c.desc.BaseURL, c.desc.Medias))
	c.client.OnPacketRTPAny(func(m *description.Media, _ format.Format, p *rtp.Packet) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.packets[m.Type] = append(c.packets[m.Type], p)
	})
	_, err = c.client.Play(nil)
	require.NoError(w.t, err)
	return c
}

func byTCP(c *gortsplib.Client) { c.Protocol = protocol(gortsplib.ProtocolTCP) }

// mikeyKey returns the key in a MIKEY message.
func mikeyKey(t *testing.T, m *mikey.Message) []byte {
	t.Helper()
	for _, p := range m.Payloads {
		if k, ok := p.(*mikey.PayloadKEMAC); ok {
			return k.SubPayloads[0].KeyData
		}
	}
	t.Fatal("no key")
	return nil
}

// TestSRTP publishes and plays with each transport, where at least one side uses SRTP. Players join late.
func TestSRTP(t *testing.T) {
	t.Parallel()
	publishers := map[string]func(*secureServer) *sender{
		"srtp": func(w *secureServer) *sender { return w.publish("/live/cam") },
		"tls":  func(w *secureServer) *sender { return w.publish("/live/cam", byTCP) },
		"udp": func(w *secureServer) *sender {
			return publishTo(w.t, w.Server, "/live/cam", gortsplib.ProtocolUDP)
		},
	}
	players := map[string]func(*secureServer) *receiver{
		"srtp":     func(w *secureServer) *receiver { return w.play("/live/cam") },
		"srtp tls": func(w *secureServer) *receiver { return w.play("/live/cam", byTCP) },
		"udp": func(w *secureServer) *receiver {
			return play(w.t, w.Server, "/live/cam", gortsplib.ProtocolUDP)
		},
	}
	carriers := map[string]string{"srtp": "srtp", "tls": "tcp", "srtp tls": "tcp", "udp": "udp"}
	for from, publish := range publishers {
		for to, play := range players {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				w := newSecureServer(t)
				w.t = t
				pub := publish(w)
				pub.frames(15)
				pub.received(w.Server, 30)
				late := play(w)
				late.expects(11, 15)
				pub.frames(10)
				late.expects(11, 25)
				guests := w.cfg.Relay.Guests()
				require.Equal(t, carriers[from], guests[0].Carrier)
				require.Equal(t, carriers[to], guests[1].Carrier)
			})
		}
	}
}

// TestSRTPIsEncrypted looks at the datagrams of a publisher and a player: no payload is in them. The player gets the
// publisher's frames with another key, which no other player has.
func TestSRTPIsEncrypted(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	var mu sync.Mutex
	var wire [][]byte
	keep := func(b []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		wire = append(wire, b)
		return b
	}
	pub := w.publish("/live/cam", func(c *gortsplib.Client) { c.ListenPacket = tapped(keep, nil) })
	a := w.play("/live/cam", func(c *gortsplib.Client) { c.ListenPacket = tapped(nil, keep) })
	b := w.play("/live/cam")
	pub.frames(10)
	a.expects(1, 10)
	b.expects(1, 10)
	mu.Lock()
	defer mu.Unlock()
	require.GreaterOrEqual(t, len(wire), 40)
	for _, d := range wire {
		for n := range uint32(10) {
			require.NotContains(t, string(d), string(framePayload(n + 1)[1:]))
		}
	}
	keys := map[string]bool{}
	for _, desc := range []*description.Session{pub.desc, a.desc, b.desc} {
		for _, m := range desc.Medias {
			require.Equal(t, headers.TransportProfileSAVP, m.Profile)
			keys[string(mikeyKey(t, m.KeyMgmtMikey))] = true
		}
	}
	require.Len(t, keys, 6, "each media of each client has a key of its own")
}

// TestSRTPWithLoss drops each third datagram of the publisher, and each fourth one of the player: the rest arrives, and
// the numbers have the gaps.
func TestSRTPWithLoss(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	lose := func(each int) func([]byte) []byte {
		var mu sync.Mutex
		n := 0
		return func(b []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%each == 0 {
				return nil
			}
			return b
		}
	}
	pub := w.publish("/live/cam", func(c *gortsplib.Client) { c.ListenPacket = tapped(lose(3), nil) })
	sub := w.play("/live/cam", func(c *gortsplib.Client) { c.ListenPacket = tapped(nil, lose(4)) })
	all := func() []*rtp.Packet { return sub.got(description.MediaTypeVideo) }
	for tries := 0; len(all()) < 50 && tries < 1000; tries++ {
		pub.frames(10) // the library holds back packets after a gap
		time.Sleep(10 * time.Millisecond)
	}
	got := all()
	require.GreaterOrEqual(t, len(got), 50)
	for i, p := range got {
		n := uint32(p.Payload[2])<<24 | uint32(p.Payload[3])<<16 | uint32(p.Payload[4])<<8 | uint32(p.Payload[5])
		require.Equal(t, framePayload(n), p.Payload)
		if i > 0 {
			require.Positive(t, int16(p.SequenceNumber-got[i-1].SequenceNumber))
		}
	}
	require.Zero(t, counted(t, w, "ignored_packets_total", ignoredSRTP))
}

// TestSRTPPause has a player pause and play: it gets the last group again, with new numbers. It uses the TLS
// connection, because the library's client receives nothing by UDP after PAUSE.
func TestSRTPPause(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	pub := w.publish("/live/cam")
	sub := w.play("/live/cam", byTCP)
	pub.frames(5)
	sub.expects(1, 5)
	for i := range 3 {
		_, err := sub.client.Pause()
		require.NoError(t, err)
		_, err = sub.client.Play(nil)
		require.NoError(t, err)
		eventually(t, "the frames again", func() bool { return len(sub.got(description.MediaTypeVideo)) == 5*(i+2) })
	}
	numbers := make(map[uint16]bool)
	for _, p := range sub.got(description.MediaTypeVideo) {
		numbers[p.SequenceNumber] = true
	}
	require.Len(t, numbers, 20)
}

// TestSRTPPublisherPauses has a publisher pause and record again: its packets are taken as before.
func TestSRTPPublisherPauses(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	pub, sub := w.publish("/live/cam"), w.play("/live/cam")
	pub.frames(5)
	sub.expects(1, 5)
	_, err := pub.client.Pause()
	require.NoError(t, err)
	_, err = pub.client.Record()
	require.NoError(t, err)
	pub.frames(5)
	sub.expects(1, 10)
	require.Zero(t, counted(t, w, "ignored_packets_total", ignoredReplay))
}

// TestNumbering checks that numbers only go forward, in small steps.
func TestNumbering(t *testing.T) {
	n := numbering{begun: true, from: math.MaxUint16 - 1, last: 100}
	for _, tc := range []struct {
		from    uint16
		parts   int
		want    uint16
		unknown bool
	}{
		{math.MaxUint16, 1, 101, false},
		{0, 1, 102, false},
		{3, 2, 105, false},            // two are missing
		{4, 1, 107, false},            // after two parts
		{4, 1, 109, true},             // again
		{2, 1, 111, true},             // back
		{2 + maxGap, 1, 3111, false},  // the largest gap
		{3 + 2*maxGap, 1, 3113, true}, // a larger one
		{3 + 2*maxGap + 1, 1, 3114, false},
		{2 * maxGap, 3, 3116, true},
		{2*maxGap + 1, 1, 3119, false},
	} {
		first, unknown := n.next(tc.from, tc.parts)
		require.Equal(t, tc.want, first, "%+v", tc)
		require.Equal(t, tc.unknown, unknown, "%+v", tc)
	}
	for range 100 {
		var fresh numbering
		first, unknown := fresh.next(uint16(math.MaxUint16), 1)
		require.Less(t, first, uint16(1<<15))
		require.False(t, unknown)
	}
}

// FuzzNumbering gives any numbers of a publisher to a numbering: with the rollovers, each is greater than the one
// before.
func FuzzNumbering(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0xff, 0xff, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var n numbering
		last := -1
		for ; len(b) >= 2; b = b[2:] {
			parts := int(b[0]&3) + 1
			first, _ := n.next(uint16(b[0])<<8|uint16(b[1]), parts)
			if last >= 0 {
				step := int(first - uint16(last))
				require.Positive(t, step)
				require.LessOrEqual(t, step, maxGap)
				last += step
			} else {
				last = int(first)
			}
			last += parts - 1
		}
	})
}

// TestNumbersOfSRTP has the publisher's numbers jump back while a player by SRTP plays, joins and is left behind. It
// never gets the same number twice.
func TestNumbersOfSRTP(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		p, sink := s.join(func(p *player) { p.srtp = make(map[*media]map[uint8]*numbering) })
		plain, other := s.player()
		for _, start := range []uint16{0, 40_000, 39_990, 0, 65_530} {
			s.start = start - uint16(s.next)
			s.frames(10)
			p.rest()
			require.True(t, p.play(s.desc.Medias, sink))
			s.settle()
		}
		var numbers []uint16
		for _, one := range sink.packets {
			numbers = append(numbers, one.SequenceNumber)
		}
		require.GreaterOrEqual(t, len(numbers), 50)
		for i := range numbers[1:] {
			require.Positive(t, int16(numbers[i+1]-numbers[i]), "%d", i)
			require.LessOrEqual(t, numbers[i+1]-numbers[i], uint16(maxGap))
		}
		require.Equal(t, span(1, 50), other.numbers())
		p.rest()
		plain.rest()
	})
}

// TestLargePacketsBySRTP has a publisher fill its datagrams. A player by SRTP gets the same frame in more packets.
func TestLargePacketsBySRTP(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	pub := publishTo(t, w.Server, "/live/cam", gortsplib.ProtocolTCP)
	secure, plain := w.play("/live/cam"), play(t, w.Server, "/live/cam", gortsplib.ProtocolTCP)
	e := &rtph264.Encoder{PayloadType: 96, PayloadMaxSize: maxPacket - 12, PacketizationMode: 1}
	require.NoError(t, e.Init())
	sent := 0
	for i := range 3 {
		unit := append([]byte{0x65, 0x80}, bytes.Repeat([]byte{byte(i)}, 10_000)...)
		packets, err := e.Encode([][]byte{unit})
		require.NoError(t, err)
		for _, p := range packets {
			p.Timestamp = uint32(i) * 3600
			require.NoError(t, pub.client.WritePacketRTP(pub.desc.Medias[0], p))
			sent++
		}
	}
	frames := func(c *receiver) (list [][]byte) {
		d := &rtph264.Decoder{PacketizationMode: 1}
		require.NoError(t, d.Init())
		for i, p := range c.got(description.MediaTypeVideo) {
			if i > 0 {
				require.Equal(t, c.got(description.MediaTypeVideo)[i-1].SequenceNumber+1, p.SequenceNumber)
			}
			if units, err := d.Decode(p); err == nil {
				list = append(list, units...)
			}
		}
		return list
	}
	eventually(t, "the frames", func() bool { return len(frames(secure)) == 3 && len(frames(plain)) == 3 })
	require.Equal(t, frames(plain), frames(secure))
	require.Len(t, plain.got(description.MediaTypeVideo), sent)
	require.Greater(t, len(secure.got(description.MediaTypeVideo)), sent)
	require.Zero(t, counted(t, w, "dropped_packets_total", dropTooLarge))
}

// TestLargePacketIsCutOnce has two players by SRTP get a packet that is too large for it, and a third one join after
// that. The first two share its parts, and the cache does not keep those of the third.
func TestLargePacketIsCutOnce(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		secure := func(p *player) { p.srtp = make(map[*media]map[uint8]*numbering) }
		s.frames(1)
		a, first := s.join(secure)
		b, second := s.join(secure)
		s.settle()
		p := &rtp.Packet{Payload: append(framePayload(2), make([]byte, 1450)...), Header: rtp.Header{
			Version: 2, PayloadType: 96, SSRC: 7, SequenceNumber: 2, Timestamp: 7200,
		}}
		require.True(t, s.write(s.desc.Medias[0], p, time.Now(), time.Now()))
		c, third := s.join(secure)
		s.settle()
		for _, sink := range []*sinkOf{first, second, third} {
			require.Len(t, sink.packets, 3)
		}
		for i := range 3 {
			require.Same(t, &first.packets[i].Payload[0], &second.packets[i].Payload[0])
			require.Equal(t, first.packets[i].Payload, third.packets[i].Payload)
		}
		for _, kept := range s.cache {
			require.Nil(t, kept.cut)
		}
		a.rest()
		b.rest()
		c.rest()
	})
}

// TestReportsOfParts checks that sender reports count the parts of a packet.
func TestReportsOfParts(t *testing.T) {
	whole := &rtp.Packet{Payload: make([]byte, 1000)}
	r := &report{packets: 5, octets: 5000}
	r.addParts(whole, []*rtp.Packet{{Payload: make([]byte, 600)}, {Payload: make([]byte, 402)}})
	require.EqualValues(t, 6, r.packets)
	require.EqualValues(t, 5002, r.octets)
	(*report)(nil).addParts(whole, []*rtp.Packet{whole})
}

// TestNACKOnTLS asks for a description that offers NACK: it offers no SRTP, and the client uses the TLS connection.
func TestNACKOnTLS(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	pub, sub := w.publish("/live/cam"), w.play("/live/cam?nack=1")
	for _, m := range sub.desc.Medias {
		require.Equal(t, headers.TransportProfileAVP, m.Profile)
		require.Nil(t, m.KeyMgmtMikey)
	}
	pub.frames(10)
	sub.expects(1, 10)
	require.Equal(t, "tcp", w.cfg.Relay.Guests()[1].Carrier)
}

// TestNACKBySRTP asks for a packet again: the number would have to be the same.
func TestNACKBySRTP(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		p, sink := s.join(func(p *player) { p.srtp = make(map[*media]map[uint8]*numbering) })
		s.frames(3)
		p.repeat(s.desc.Medias[0], &rtcp.TransportLayerNack{Nacks: []rtcp.NackPair{{PacketID: 1}}})
		require.Len(t, sink.packets, 3)
		p.rest()
		synctest.Wait()
	})
}

// TestReplayedSRTP records what a publisher sends, and sends it again, long enough for the library to take it.
func TestReplayedSRTP(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	var mu sync.Mutex
	var recorded [][]byte
	replay := false
	pub := w.publish("/live/cam", func(c *gortsplib.Client) {
		c.ListenPacket = tapped(func(b []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			if !replay {
				recorded = append(recorded, b)
				return b
			}
			if b[1]&0x7f != 96 || len(recorded) == 0 {
				return nil
			}
			b, recorded = recorded[0], recorded[1:]
			return b
		}, nil)
	})
	sub := w.play("/live/cam")
	for range 15 {
		pub.frames(10)
		pub.received(w.Server, 2*int(pub.number))
	}
	before := counted(t, w, "received_packets_total")
	mu.Lock()
	var video [][]byte
	for _, b := range recorded {
		if b[1]&0x7f == 96 {
			video = append(video, b)
		}
	}
	recorded, replay = video, true
	mu.Unlock()
	eventually(t, "old packets", func() bool {
		pub.frames(1)
		return counted(t, w, "ignored_packets_total", ignoredReplay) > 0
	})
	require.Equal(t, before, counted(t, w, "received_packets_total"))
	sub.expects(1, 150)
}

// TestWrongKey has a publisher send packets that its key does not decrypt. It has to leave, and others stay.
func TestWrongKey(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t, func(c *Config) { c.ReadTimeout = time.Second })
	good := publishTo(t, w.Server, "/live/cam", gortsplib.ProtocolTCP)
	sub := w.play("/live/cam")
	bad := w.publish("/live/bad", func(c *gortsplib.Client) {
		c.ListenPacket = tapped(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, nil)
	})
	eventually(t, "the publisher leaves", func() bool {
		good.frames(1) // it must not be silent
		_ = bad.client.WritePacketRTP(bad.desc.Medias[0], &rtp.Packet{
			Header: rtp.Header{Version: 2, PayloadType: 96}, Payload: framePayload(1),
		})
		return counted(t, w, "publishers") == 1
	})
	require.Contains(t, w.log.String(), errUndecryptable.Error())
	require.Equal(t, 1, strings.Count(w.log.String(), errUndecryptable.Error()))
	require.Positive(t, counted(t, w, "ignored_packets_total", ignoredSRTP))
	good.frames(10)
	sub.expects(1, good.number)
}

// TestHostileSRTP asks for SRTP in all wrong ways. Each client learns why, and others do not notice.
func TestHostileSRTP(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	pub, sub := w.publish("/live/cam"), w.play("/live/cam")
	secret := base64.StdEncoding.EncodeToString(mikeyKey(t, pub.desc.Medias[0].KeyMgmtMikey))
	encoded, err := pub.desc.Medias[0].KeyMgmtMikey.Marshal()
	require.NoError(t, err)
	good := base64.StdEncoding.EncodeToString(encoded)
	old := *pub.desc.Medias[0].KeyMgmtMikey
	old.Payloads = append([]mikey.Payload{&mikey.PayloadT{TSValue: 1}}, old.Payloads[1:]...)
	encoded, err = old.Marshal()
	require.NoError(t, err)
	late := base64.StdEncoding.EncodeToString(encoded)
	header := func(data string) string { return `KeyMgmt: prot=mikey;uri="x";data="` + data + `"` }
	const savp = "Transport: RTP/SAVP;unicast;client_port=%d-%d"
	plain, tls := w.Addr().String(), w.TLSAddr().String()
	for name, tc := range map[string]struct {
		address, transport string
		headers            []string
		want               base.StatusCode
		says               string
	}{
		"no key":        {tls, savp, nil, base.StatusBadRequest, ""},
		"no base64":     {tls, savp, []string{header("!" + secret)}, base.StatusBadRequest, ""},
		"no MIKEY":      {tls, savp, []string{header(secret)}, base.StatusBadRequest, ""},
		"half of MIKEY": {tls, savp, []string{header(good[:len(good)/8*4])}, base.StatusBadRequest, ""},
		"two keys":      {tls, savp, []string{header(good), header(good)}, base.StatusBadRequest, ""},
		"protocol":      {tls, savp, []string{"KeyMgmt: prot=" + secret + `;uri="x"`}, base.StatusBadRequest, ""},
		"old":           {tls, savp, []string{header(late)}, base.StatusBadRequest, ""},
		"without TLS":   {plain, savp, []string{header(good)}, base.StatusUnsupportedTransport, "SRTP needs rtsps"},
		"RTP on TLS": {tls, strings.Replace(savp, "SAVP", "AVP", 1), nil, base.StatusUnsupportedTransport,
			"must be RTP/SAVP"},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, w.Server)
			scheme := "rtsp://"
			if tc.address == tls {
				c, scheme = dialTLS(t, w.Server, w.conf), "rtsps://"
			}
			at, err := net.ResolveUDPAddr("udp", freePair(t))
			require.NoError(t, err)
			transport := fmt.Sprintf(tc.transport, at.Port, at.Port+1)
			res := c.ask("SETUP", scheme+tc.address+"/live/cam/trackID=0", append(tc.headers, transport)...)
			require.Equal(t, tc.want, res.StatusCode)
			require.Contains(t, res.StatusMessage, tc.says)
		})
	}
	eventually(t, "the log says why", func() bool { return strings.Contains(w.log.String(), errKeys.Error()) })
	require.Equal(t, 1, strings.Count(w.log.String(), errKeys.Error()), "once in a minute")
	pub.frames(10)
	sub.expects(1, 10)
	require.NotContains(t, w.log.String(), secret)
	require.NotContains(t, w.log.String(), good)
}

// TestKeysStaySecret looks for the keys of all clients in the log, with all levels, in the status and in what players
// are told.
func TestKeysStaySecret(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	pub := w.publish("/live/cam")
	sub := w.play("/live/cam")
	pub.frames(10)
	sub.expects(1, 10)
	u := w.url("/live/cam")
	c := gortsplib.Client{TLSConfig: w.conf, Scheme: u.Scheme, Host: u.Host}
	require.NoError(t, c.Start())
	defer c.Close()
	_, res, err := c.Describe(u)
	require.NoError(t, err)
	told := string(res.Body) + fmt.Sprintf("%+v", w.cfg.Relay.Guests())
	sub.client.Close()
	pub.client.Close()
	eventually(t, "all leave", func() bool { return strings.Contains(w.log.String(), "has left") })
	for _, desc := range []*description.Session{pub.desc, sub.desc} {
		for _, m := range desc.Medias {
			key := mikeyKey(t, m.KeyMgmtMikey)
			encoded, err := m.KeyMgmtMikey.Marshal()
			require.NoError(t, err)
			for _, secret := range []string{
				string(key), hex.EncodeToString(key), base64.StdEncoding.EncodeToString(key),
				base64.StdEncoding.EncodeToString(encoded), fmt.Sprint(key),
			} {
				require.NotContains(t, w.log.String(), secret)
				require.NotContains(t, told, secret)
			}
		}
	}
	require.Contains(t, string(res.Body), "a=key-mgmt:mikey ")
}

// TestNoSRTP checks that without an address for SRTP players are told to use the TLS connection.
func TestNoSRTP(t *testing.T) {
	t.Parallel()
	s, conf := newTLSServer(t)
	publishTo(t, s, "/live/cam", gortsplib.ProtocolTCP)
	url := "rtsps://" + s.TLSAddr().String() + "/live/cam"
	u, err := base.ParseURL(url)
	require.NoError(t, err)
	c := gortsplib.Client{TLSConfig: conf, Scheme: u.Scheme, Host: u.Host}
	require.NoError(t, c.Start())
	defer c.Close()
	desc, _, err := c.Describe(u)
	require.NoError(t, err)
	require.Equal(t, headers.TransportProfileAVP, desc.Medias[0].Profile)
	for _, profile := range []string{"SAVP", "AVP"} {
		transport := "Transport: RTP/" + profile + ";unicast;client_port=9000-9001"
		res := dialTLS(t, s, conf).ask("SETUP", url+"/trackID=0", transport)
		require.Equal(t, base.StatusUnsupportedTransport, res.StatusCode)
		require.Contains(t, res.StatusMessage, "must use the TLS connection")
	}
}

// FuzzMIKEY reads headers with keys, as the library does before anybody has shown a permission.
func FuzzMIKEY(f *testing.F) {
	randomness := &mikey.PayloadRAND{Data: make([]byte, 16)}
	policy := &mikey.PayloadSP{PolicyParams: []mikey.PayloadSPPolicyParam{{Type: 0, Value: []byte{1}}}}
	keys := &mikey.PayloadKEMAC{SubPayloads: []*mikey.SubPayloadKeyData{{
		Type: mikey.SubPayloadKeyDataTypeTEK, KV: mikey.SubPayloadKeyDataKVSPI, KeyData: make([]byte, 30),
		SPI: []byte{1, 2, 3, 4},
	}}}
	m := &mikey.Message{
		Header:   mikey.Header{Version: 1, CSIDMapInfo: []mikey.SRTPIDEntry{{SSRC: 1}, {SSRC: 2, ROC: 3}}},
		Payloads: []mikey.Payload{&mikey.PayloadT{TSValue: 1 << 63}, randomness, policy, keys},
	}
	b, err := m.Marshal()
	require.NoError(f, err)
	for n := range len(b) {
		f.Add(b[:n+1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var k headers.KeyMgmt
		data := base64.StdEncoding.EncodeToString(b)
		if k.Unmarshal(base.HeaderValue{`prot=mikey;uri="x";data="` + data + `"`}) == nil {
			require.NotNil(t, k.MikeyMessage)
		}
		_ = k.Unmarshal(base.HeaderValue{string(b)}) // any header
	})
}
