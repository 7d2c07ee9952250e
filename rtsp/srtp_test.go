package rtsp

import (
	"bytes"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format/rtph264"
	"github.com/bluenviron/gortsplib/v5/pkg/headers"
	"github.com/bluenviron/gortsplib/v5/pkg/mikey"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

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

// TestKernelIsOfferedNoSRTP checks which medias of publishers and players user space offers to the kernel: those that
// go by UDP without encryption. Clients by SRTP name UDP ports as well.
func TestKernelIsOfferedNoSRTP(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		srtp bool
		want int
	}{"udp": {false, 2}, "srtp": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSecureServer(t)
			publish := func() *sender { return publishTo(t, w.Server, "/live/cam", gortsplib.ProtocolUDP) }
			play := func() *receiver { return play(t, w.Server, "/live/cam", gortsplib.ProtocolUDP) }
			if tc.srtp {
				publish = func() *sender { return w.publish("/live/cam") }
				play = func() *receiver { return w.play("/live/cam") }
			}
			pub, sub := publish(), play()
			pub.frames(1)
			sub.expects(1, 1)
			s := w.all()[0]
			s.mu.Lock()
			defer s.mu.Unlock()
			p := s.publisher
			require.Len(t, p.ports, 2)
			require.NotContains(t, p.ports, uint16(0))
			require.Len(t, p.ports.of(p.session, p.address), tc.want)
			require.Len(t, s.players, 1)
			for p := range s.players {
				require.Len(t, p.ports, 2)
				require.NotContains(t, p.ports, uint16(0))
				require.Len(t, p.reach.medias, tc.want)
			}
		})
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

// TestNumbering checks that numbers only go forward, in small steps.
func TestNumbering(t *testing.T) {
	n := numbering{begun: true, from: math.MaxUint16 - 1, last: 100}
	for _, tc := range []struct {
		from    uint16
		pieces  int
		want    uint16
		unknown bool
	}{
		{math.MaxUint16, 1, 101, false},
		{0, 1, 102, false},
		{3, 2, 105, false},               // two are missing
		{4, 1, 107, false},               // after two pieces
		{4, 1, 109, true},                // again
		{2, 1, 111, true},                // back
		{2 + 2999, 1, 3110, false},       // the largest step
		{2 + 2999 + 3000, 1, 3112, true}, // a larger one
		{3 + 2*maxGap + 1, 1, 3113, false},
		{2 * maxGap, 3, 3115, true},
		{2*maxGap + 1, 1, 3118, false},
	} {
		first, unknown := n.next(tc.from, tc.pieces)
		require.Equal(t, tc.want, first, "%+v", tc)
		require.Equal(t, tc.unknown, unknown, "%+v", tc)
	}
	n.again = true
	first, unknown := n.next(2*maxGap+300, 1)
	require.EqualValues(t, 3120, first, "after PAUSE")
	require.True(t, unknown)
	first, unknown = n.next(2*maxGap+302, 1)
	require.EqualValues(t, 3122, first)
	require.False(t, unknown)
	for range 100 {
		var fresh numbering
		first, unknown := fresh.next(uint16(math.MaxUint16), 1)
		require.Less(t, first, uint16(1<<15))
		require.False(t, unknown)
	}
}

// FuzzNumbering gives any numbers of a publisher to a numbering: with the rollovers, they rise.
func FuzzNumbering(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0xff, 0xff, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testlimit.Start(t, len(b), 1000)()
		var n numbering
		last := -1
		for ; len(b) >= 2; b = b[2:] {
			pieces := int(b[0]&3) + 1
			first, _ := n.next(uint16(b[0])<<8|uint16(b[1]), pieces)
			if last >= 0 {
				step := int(first - uint16(last))
				require.Positive(t, step)
				require.LessOrEqual(t, step, maxGap)
				last += step
			} else {
				last = int(first)
			}
			last += pieces - 1
		}
	})
}

// TestNumbersOfSRTP has the publisher's numbers jump back while a player by SRTP plays, joins and is left behind. It
// never gets the same number twice.
func TestNumbersOfSRTP(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		p, sink := s.join(func(p *player) { p.srtp = true })
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

// TestPauseBySRTP has a player by SRTP pause while packets come: one number is missing then, however many there were.
func TestPauseBySRTP(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		p, sink := s.join(func(p *player) { p.srtp = true })
		for _, paused := range []int{5, 300, 5000} {
			s.frames(10)
			before := len(sink.packets)
			p.rest() // PAUSE
			s.frames(paused)
			require.True(t, p.play(s.desc.Medias, sink)) // PLAY
			s.settle()
			last := sink.packets[before-1].SequenceNumber
			require.Equal(t, last+2, sink.packets[before].SequenceNumber, "%d packets", paused)
		}
		p.rest()
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
// that. The first two share its pieces, and the cache does not keep the third one's.
func TestLargePacketIsCutOnce(t *testing.T) {
	testStream(t, 1<<20, func(s *streamTest) {
		secure := func(p *player) { p.srtp = true }
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

// TestReportsOfPieces checks that sender reports count the pieces of a packet.
func TestReportsOfPieces(t *testing.T) {
	whole := &rtp.Packet{Payload: make([]byte, 1000)}
	r := &report{packets: 5, octets: 5000}
	r.addPieces(whole, []*rtp.Packet{{Payload: make([]byte, 600)}, {Payload: make([]byte, 402)}})
	require.EqualValues(t, 6, r.packets)
	require.EqualValues(t, 5002, r.octets)
	(*report)(nil).addPieces(whole, []*rtp.Packet{whole})
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
		p, sink := s.join(func(p *player) { p.srtp = true })
		s.frames(3)
		p.hear(s.desc.Medias[0], &rtcp.TransportLayerNack{Nacks: []rtcp.NackPair{{PacketID: 1}}}, true)
		require.Len(t, sink.packets, 3)
		p.rest()
		synctest.Wait()
	})
}
