package rtsp

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sluice/auth"
	"sluice/internal/certtest"
	"sluice/internal/metrictest"
	"sluice/relay"
	"sluice/rtsp/rtspwire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patient = time.Minute // for events that come at once on a machine that is not busy

// newRelay returns a relay that runs.
func newRelay(t testing.TB, cfg relay.Config) *relay.Relay {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	r, err := relay.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return r
}

// tokenFile returns an authorizer with a file of tokens, and the file.
func tokenFile(t *testing.T, text string) (tokens *auth.TokenFile, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	tokens, err := auth.OpenTokenFile(file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return tokens, file
}

// newServer returns a server on the loopback interface.
func newServer(t testing.TB, options ...func(*Config)) *Server {
	t.Helper()
	cfg := Config{Address: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
	for _, o := range options {
		o(&cfg)
	}
	if cfg.Relay == nil {
		cfg.Relay = newRelay(t, relay.Config{})
	}
	var s *Server
	for tries := 0; ; tries++ {
		cfg.RTPAddress = freePair(t)
		if cfg.SRTPAddress != "" {
			cfg.SRTPAddress = freePair(t)
		}
		var err error
		if s, err = Start(cfg); err == nil {
			break
		}
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		require.Less(t, tries, 100, "others take all ports")
	}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// newTLSServer returns a server with both addresses, and the configuration of the second one's clients.
func newTLSServer(t *testing.T, options ...func(*Config)) (*Server, *tls.Config) {
	t.Helper()
	s := newServer(t, append(options, withTLS(t, "127.0.0.1:0"))...)
	return s, &tls.Config{InsecureSkipVerify: true}
}

// withTLS returns an option that makes a server listen for rtsps://.
func withTLS(t *testing.T, address string) func(*Config) {
	t.Helper()
	files := certtest.New(t).Issue(t)
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	require.NoError(t, err)
	return func(c *Config) {
		c.TLSAddress = address
		c.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
	}
}

// freePair returns a UDP address with an even port that is free, as is the next one. Another program, or a client of a
// test that runs at the same time, may take one of them before the caller does.
func freePair(t testing.TB) string {
	t.Helper()
	for range 100 {
		first, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, err)
		port := first.LocalAddr().(*net.UDPAddr).Port
		second, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port + 1})
		require.NoError(t, first.Close())
		if err != nil {
			continue
		}
		require.NoError(t, second.Close())
		if port%2 == 0 {
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	t.Fatal("no two free ports")
	return ""
}

func (s *Server) url(t testing.TB, path string) *base.URL {
	t.Helper()
	u, err := base.ParseURL("rtsp://" + s.Addr().String() + path)
	require.NoError(t, err)
	return u
}

// udpClient is a client with ports of its own for RTP and RTCP.
type udpClient struct {
	*rtspwire.Conn
	rtp, rtcp *net.UDPConn
}

// dialWithPorts connects a client that speaks RTSP by hand.
func (s *Server) dialWithPorts(t *testing.T, path string) *udpClient {
	t.Helper()
	conn, err := rtspwire.Dial(t.Context(), nil, s.Addr().String(), path, "", false)
	require.NoError(t, err)
	c := &udpClient{Conn: conn}
	c.rtp, c.rtcp, err = rtspwire.Ports(net.IPv4(127, 0, 0, 1))
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, end := range []net.Conn{c, c.rtp, c.rtcp} {
			_ = end.Close()
		}
	})
	require.NoError(t, c.SetDeadline(time.Now().Add(patient)))
	return c
}

// port is the port for RTP.
func (c *udpClient) port() int { return c.rtp.LocalAddr().(*net.UDPAddr).Port }

// counted returns a metric, whose name may lack its prefix.
func counted(t testing.TB, s prometheus.Collector, name string, labels ...string) float64 {
	t.Helper()
	return metrictest.Sum(t, s, name, labels...) + metrictest.Sum(t, s, "sluice_rtsp_"+name, labels...)
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, patient, 5*time.Millisecond, what)
}

// broadcast is a session description with H.264 and Opus.
func broadcast() *description.Session {
	video := &format.H264{PayloadTyp: 96, PacketizationMode: 1}
	audio := &format.Opus{PayloadTyp: 97, ChannelCount: 2}
	return &description.Session{Medias: []*description.Media{
		{Type: description.MediaTypeVideo, Formats: []format.Format{video}},
		{Type: description.MediaTypeAudio, Formats: []format.Format{audio}},
	}}
}

// sender is a client that publishes frames of one packet.
type sender struct {
	t      testing.TB
	client *gortsplib.Client
	desc   *description.Session
	number uint32
	slice  func(number uint32) []byte // the payload of a frame; nil: framePayload
}

func protocol(p gortsplib.Protocol) *gortsplib.Protocol { return &p }

// publishTo starts to publish.
func publishTo(t testing.TB, s *Server, path string, p gortsplib.Protocol) *sender {
	t.Helper()
	c := &sender{t: t, client: &gortsplib.Client{Protocol: protocol(p)}, desc: broadcast()}
	require.NoError(t, c.client.StartRecording(s.url(t, path).String(), c.desc))
	t.Cleanup(c.client.Close)
	return c
}

// framePayload is a slice of a picture with its number. Each tenth begins a group.
func framePayload(number uint32) []byte {
	header := byte(0x41)
	if number%10 == 1 {
		header = 0x65
	}
	return binary.BigEndian.AppendUint32([]byte{header, 0x80}, number)
}

// frames sends the next frames, with sound.
func (c *sender) frames(n int) {
	c.t.Helper()
	for range n {
		c.number++
		payload := framePayload(c.number)
		if c.slice != nil {
			payload = c.slice(c.number)
		}
		for m, p := range []*rtp.Packet{
			{Header: rtp.Header{
				Version: 2, Marker: true, PayloadType: 96, SequenceNumber: uint16(c.number), Timestamp: 3600 * c.number,
			}, Payload: payload},
			{Header: rtp.Header{
				Version: 2, PayloadType: 97, SequenceNumber: uint16(c.number), Timestamp: 1920 * c.number,
			}, Payload: payload},
		} {
			require.NoError(c.t, c.client.WritePacketRTP(c.desc.Medias[m], p))
		}
	}
}

// received waits until the server has received the number of packets.
func (c *sender) received(s *Server, packets int) {
	c.t.Helper()
	eventually(c.t, "packets", func() bool { return counted(c.t, s, "received_packets_total") == float64(packets) })
}

// receiver is a client that plays.
type receiver struct {
	t      *testing.T
	client *gortsplib.Client
	desc   *description.Session

	mu      sync.Mutex
	packets map[description.MediaType][]*rtp.Packet
	reports []*rtcp.SenderReport
}

// play starts to play.
func play(t *testing.T, s *Server, path string, p gortsplib.Protocol) *receiver {
	t.Helper()
	return (&receiver{t: t, client: &gortsplib.Client{Protocol: protocol(p)}}).play(s.url(t, path), true)
}

// play starts to play at a URL. It may keep the packets that the library reads.
func (c *receiver) play(u *base.URL, keep bool) *receiver {
	c.t.Helper()
	c.packets = make(map[description.MediaType][]*rtp.Packet)
	c.client.Scheme, c.client.Host = u.Scheme, u.Host
	require.NoError(c.t, c.client.Start())
	c.t.Cleanup(c.client.Close)
	desc, _, err := c.client.Describe(u)
	require.NoError(c.t, err)
	require.NoError(c.t, c.client.SetupAll(desc.BaseURL, desc.Medias))
	c.desc = desc
	if keep {
		c.client.OnPacketRTPAny(func(m *description.Media, _ format.Format, p *rtp.Packet) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.packets[m.Type] = append(c.packets[m.Type], p)
		})
		c.client.OnPacketRTCPAny(func(_ *description.Media, p rtcp.Packet) {
			if r, ok := p.(*rtcp.SenderReport); ok {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.reports = append(c.reports, r)
			}
		})
	}
	_, err = c.client.Play(nil)
	require.NoError(c.t, err)
	return c
}

// got returns the packets of a media so far.
func (c *receiver) got(m description.MediaType) []*rtp.Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*rtp.Packet(nil), c.packets[m]...)
}

// expects waits for the frames from first to last, and no others.
func (c *receiver) expects(first, last uint32) {
	c.t.Helper()
	for _, m := range []description.MediaType{description.MediaTypeVideo, description.MediaTypeAudio} {
		eventually(c.t, "packets", func() bool { return len(c.got(m)) >= int(last-first)+1 })
		got := c.got(m)
		require.Len(c.t, got, int(last-first)+1)
		for i, p := range got {
			require.Equal(c.t, framePayload(first+uint32(i)), p.Payload)
			require.Equal(c.t, got[0].SequenceNumber+uint16(i), p.SequenceNumber)
			require.Equal(c.t, got[0].SSRC, p.SSRC)
		}
	}
}
