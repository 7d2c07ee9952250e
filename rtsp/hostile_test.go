package rtsp

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/lab/sim"
	"sluice/relay"
	"sluice/rtsp/rtspwire"
)

// TestTokens checks where a request's token may be.
func TestTokens(t *testing.T) {
	t.Parallel()
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("camera:secret"))
	for _, tc := range []struct{ query, header, want string }{
		{"", "", ""},
		{"token=secret", "", "secret"},
		{"a=b&token=se%2Fcret", "", "se/cret"},
		{"", "Bearer secret", "secret"},
		{"", "bearer  secret ", "secret"},
		{"", basic, "secret"},
		{"token=first", basic, "first"},
		{"token=%zz", "", ""},
		{"", "Basic !", ""},
		{"", `Digest username="camera", response="secret"`, ""},
	} {
		require.Equal(t, tc.want, tokenOf(tc.query, base.HeaderValue{tc.header}), "%q, %q", tc.query, tc.header)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("/live/cam", "token=secret", "Basic Y2FtZXJhOnNlY3JldA==")
	f.Add("//.session/\x00", "token=%zz", "Bearer")
	f.Add("/live/cam", "rendition=720p&max-bitrate=2000", "")
	f.Fuzz(func(t *testing.T, path, query, header string) {
		defer testlimit.Start(t, len(path)+len(query)+len(header), 1000)()
		q, err := readRequest(path, query, &base.Request{Header: base.Header{"Authorization": {header}}})
		require.LessOrEqual(t, len(q.token), maxToken)
		if err == nil {
			require.NoError(t, q.namespace.Validate())
			require.False(t, q.namespace.IsReserved())
		}
		c, err := readChoice(query)
		require.False(t, err != nil && c != (choice{}))
		require.LessOrEqual(t, uint(c.maxBitrate), uint(maxBitrate))
	})
}

// rewrite gives a file other content at once: the server reads it again at any time.
func rewrite(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", []byte(content), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// TestPermissions checks that clients need a token that allows what they do, and have to go when it does not any more.
func TestPermissions(t *testing.T) {
	t.Parallel()
	tokens, file := tokenFile(t, "cam publish live\nviewer subscribe live\n")
	s := newServer(t, func(c *Config) { c.Relay = newRelay(t, relay.Config{Authorizer: tokens}) })
	for _, path := range []string{"/live/cam", "/live/cam?token=viewer", "/other/cam?token=cam"} {
		c := gortsplib.Client{Protocol: protocol(gortsplib.ProtocolTCP)}
		require.ErrorContains(t, c.StartRecording(s.url(t, path).String(), broadcast()), "401")
		c.Close()
	}
	pub := publishTo(t, s, "/live/cam?token=cam", gortsplib.ProtocolTCP)
	byUDP := publishTo(t, s, "/live/other?token=cam", gortsplib.ProtocolUDP)
	for _, path := range []string{"/live/cam", "/live/cam?token=cam"} {
		u := s.url(t, path)
		c := gortsplib.Client{Scheme: u.Scheme, Host: u.Host}
		require.NoError(t, c.Start())
		_, _, err := c.Describe(u)
		require.ErrorContains(t, err, "401")
		c.Close()
	}
	sub := play(t, s, "/live/cam?token=viewer", gortsplib.ProtocolUDP)
	pub.frames(10)
	sub.expects(1, 10)
	u := s.url(t, "/live/cam?token=viewer")
	idle := gortsplib.Client{Scheme: u.Scheme, Host: u.Host}
	require.NoError(t, idle.Start())
	defer idle.Close()
	_, _, err := idle.Describe(u)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- idle.Wait() }()
	rewrite(t, file, "cam publish live\n")
	eventually(t, "the viewer's permission ends", func() bool { return counted(t, s, "players") == 0 })
	eventually(t, "a player without a session has to go, too", func() bool { return len(ended) == 1 })
	require.EqualValues(t, 2, counted(t, s, "publishers"))
	rewrite(t, file, "\n")
	eventually(t, "the publishers' permission ends", func() bool { return counted(t, s, "publishers") == 0 })
	require.Error(t, pub.client.Wait(), "its connection is closed")
	require.Error(t, byUDP.client.Wait(), "its connection is closed")
}

// sessions returns how many sessions have ports.
func (p *ports) sessions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.of)
}

// TestPasswords logs in as ffmpeg does: the server asks for credentials, and the password is the token.
func TestPasswords(t *testing.T) {
	t.Parallel()
	tokens, _ := tokenFile(t, "secret publish live\n")
	s := newServer(t, func(c *Config) { c.Relay = newRelay(t, relay.Config{Authorizer: tokens}) })
	c := gortsplib.Client{Protocol: protocol(gortsplib.ProtocolTCP)}
	t.Cleanup(c.Close)
	require.NoError(t, c.StartRecording("rtsp://camera:secret@"+s.Addr().String()+"/live/cam", broadcast()))
	require.EqualValues(t, 1, counted(t, s, "publishers"))
}

// announce publishes from an address until the test ends.
func announce(t *testing.T, s *Server, from, path string, desc *description.Session) error {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c := &gortsplib.Client{Protocol: protocol(gortsplib.ProtocolTCP), DialContext: dialer.DialContext}
	t.Cleanup(c.Close)
	return c.StartRecording(fmt.Sprintf("rtsp://127.0.0.1:%d%s", s.Addr().(*net.TCPAddr).Port, path), desc)
}

// TestPublishers checks that a path has one publisher, and that their number has a limit.
func TestPublishers(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(c *Config) { c.MaxPublishers, c.Address = 1, "0.0.0.0:0" })
	announce := func(from, path string, desc *description.Session) error { return announce(t, s, from, path, desc) }
	require.NoError(t, announce("127.0.0.1", "/live/cam", broadcast()))
	require.ErrorContains(t, announce("127.0.0.2", "/live/cam", broadcast()), "403")
	require.ErrorContains(t, announce("127.0.0.1", "/live/other", broadcast()), "453")
	require.ErrorContains(t, announce("127.0.0.1", "/", broadcast()), "400")
	require.ErrorContains(t, announce("127.0.0.1", "/.session/cam", broadcast()), "400")
	many := &description.Session{}
	for range maxMedias + 1 {
		many.Medias = append(many.Medias, broadcast().Medias[0])
	}
	require.ErrorContains(t, announce("127.0.0.1", "/live/cam", many), "400")
	require.ErrorContains(t, announce("127.0.0.1", "/live/cam", broadcast()), "403", "it may be somebody else")
	require.EqualValues(t, 1, counted(t, s, "publishers"))
}

// TestPublishersOfAnAddress checks that an address may have as many publishers as are free.
func TestPublishersOfAnAddress(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(c *Config) { c.MaxPublishers, c.Address = 4, "0.0.0.0:0" })
	require.NoError(t, announce(t, s, "127.0.0.1", "/live/a", broadcast()))
	require.NoError(t, announce(t, s, "127.0.0.1", "/live/b", broadcast()))
	require.ErrorContains(t, announce(t, s, "127.0.0.1", "/live/c", broadcast()), "453")
	require.NoError(t, announce(t, s, "127.0.0.2", "/live/c", broadcast()))
}

// takesAll is the handler of a server of gortsplib that takes every publisher. It is closed as a session ends.
type takesAll chan struct{}

func (takesAll) OnAnnounce(*gortsplib.ServerHandlerOnAnnounceCtx) (*base.Response, error) {
	return ok(), nil
}
func (takesAll) OnRecord(*gortsplib.ServerHandlerOnRecordCtx) (*base.Response, error) {
	return ok(), nil
}
func (takesAll) OnSetup(*gortsplib.ServerHandlerOnSetupCtx) (*base.Response, *gortsplib.ServerStream, error) {
	return ok(), nil, nil
}
func (h takesAll) OnSessionClose(*gortsplib.ServerHandlerOnSessionCloseCtx) { close(h) }

// TestRecordThatCannotSend has a publisher name a port that the library cannot send to. The session ends all the same.
func TestRecordThatCannotSend(t *testing.T) {
	t.Parallel()
	closed := make(takesAll)
	rtp, rtcp, err := rtspwire.Ports(net.IPv4(127, 0, 0, 1))
	require.NoError(t, err)
	ports := map[string]net.PacketConn{rtp.LocalAddr().String(): rtp, rtcp.LocalAddr().String(): rtcp}
	s := gortsplib.Server{
		Handler: closed, RTSPAddress: "127.0.0.1:0", ReadTimeout: time.Millisecond,
		UDPRTPAddress: rtp.LocalAddr().String(), UDPRTCPAddress: rtcp.LocalAddr().String(),
		ListenPacket: func(_, address string) (net.PacketConn, error) { return ports[address], nil },
	}
	require.NoError(t, s.Start())
	defer s.Close()
	c, err := rtspwire.Dial(t.Context(), nil, s.NetListener().Addr().String(), "live/cam", "", false)
	require.NoError(t, err)
	_, err = c.Record(rtspwire.H264, 1<<16)
	require.ErrorContains(t, err, "400")
	require.NoError(t, c.Close())
	<-closed
}

// TestReplacedPublisher checks who may take the place of a publisher: who has its address and its token, or its address
// when it is lost.
func TestReplacedPublisher(t *testing.T) {
	t.Parallel()
	tokens, _ := tokenFile(t, "cam publish live\nother publish live\n* publish open\n")
	const here, elsewhere = "127.0.0.1", "127.0.0.2"
	silent := func(p *publisher) { p.incoming.latest.Store(int64(p.stream.clock.Now().Add(-silence))) }
	paused := func(p *publisher) { p.incoming.sends.Store(false); silent(p) }
	for name, c := range map[string]struct {
		before func(*publisher)
		path   string
		from   string
		token  string // of the second one; the first one has cam
		takes  bool
	}{
		"the same token":               {nil, "/live/cam", here, "cam", true},
		"another token":                {nil, "/live/cam", here, "other", false},
		"another address":              {nil, "/live/cam", elsewhere, "cam", false},
		"no tokens":                    {nil, "/open/cam", here, "cam", false},
		"lost":                         {silent, "/live/cam", here, "other", true},
		"lost, without tokens":         {silent, "/open/cam", here, "cam", true},
		"lost, from another address":   {silent, "/live/cam", elsewhere, "cam", false},
		"it pauses, and sends nothing": {paused, "/live/cam", here, "other", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, func(c *Config) {
				c.Relay, c.Address = newRelay(t, relay.Config{Authorizer: tokens}), "0.0.0.0:0"
				c.ReadTimeout = time.Hour
			})
			require.NoError(t, announce(t, s, here, c.path+"?token=cam", broadcast()))
			first := s.all()[0].publisher
			if c.before != nil {
				c.before(first)
			}
			err := announce(t, s, c.from, c.path+"?token="+c.token, broadcast())
			if c.takes {
				require.NoError(t, err)
				require.NotSame(t, first, s.all()[0].publisher)
			} else {
				require.ErrorContains(t, err, "403")
				require.Same(t, first, s.all()[0].publisher)
			}
		})
	}
}

// raw is a connection on which a test writes any bytes.
type raw struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dialRaw(t *testing.T, s *Server) *raw {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	return newRaw(t, c)
}

func dialTLS(t *testing.T, s *Server, conf *tls.Config) *raw {
	t.Helper()
	c, err := tls.Dial("tcp", s.TLSAddr().String(), conf)
	require.NoError(t, err)
	return newRaw(t, c)
}

func newRaw(t *testing.T, c net.Conn) *raw {
	t.Helper()
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patient)))
	return &raw{t, c, bufio.NewReader(c)}
}

// ask sends a request and returns the response.
func (c *raw) ask(method, url string, headers ...string) base.Response {
	c.t.Helper()
	fmt.Fprintf(c, "%s %s RTSP/1.0\r\nCSeq: 1\r\n%s\r\n", method, url, strings.Join(append(headers, ""), "\r\n"))
	var res base.Response
	require.NoError(c.t, res.Unmarshal(c.in))
	return res
}

// announce asks to publish H.264.
func (c *raw) announce(url string, headers ...string) base.Response {
	c.t.Helper()
	const sdp = rtspwire.H264
	headers = append(headers, "Content-Type: application/sdp", fmt.Sprint("Content-Length: ", len(sdp)), "", sdp)
	fmt.Fprintf(c, "ANNOUNCE %s RTSP/1.0\r\nCSeq: 1\r\n%s", url, strings.Join(headers, "\r\n"))
	var res base.Response
	require.NoError(c.t, res.Unmarshal(c.in))
	return res
}

// TestOtherDestination asks for packets to somebody else's address. They go to the client that asks.
func TestOtherDestination(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pub := publishTo(t, s, "/live/cam", gortsplib.ProtocolTCP)
	listen := func(ip string, port int) *net.UDPConn {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(ip), Port: port})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	own := listen("127.0.0.1", 0)
	port := own.LocalAddr().(*net.UDPAddr).Port
	victim := listen("127.0.0.2", port)
	c := dialRaw(t, s)
	url := "rtsp://" + s.Addr().String() + "/live/cam"
	res := c.ask("SETUP", url+"/trackID=0",
		fmt.Sprintf("Transport: RTP/AVP;unicast;destination=127.0.0.2;client_port=%d-%d", port, port+1))
	require.Equal(t, base.StatusOK, res.StatusCode)
	require.Equal(t, base.StatusOK, c.ask("PLAY", url, "Session: "+sessionOf(res)).StatusCode)
	pub.frames(10)
	buf := make([]byte, 2000)
	require.NoError(t, own.SetReadDeadline(time.Now().Add(patient)))
	for range 10 {
		_, _, err := own.ReadFrom(buf)
		require.NoError(t, err)
	}
	hasNothing(t, victim, func(b []byte) (int, error) { return own.WriteTo(b, victim.LocalAddr()) })
}

// hasNothing sends a datagram to a socket, which has got no other one before.
func hasNothing(t *testing.T, c *net.UDPConn, send func([]byte) (int, error)) {
	t.Helper()
	_, err := send([]byte("the first"))
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patient)))
	buf := make([]byte, 2000)
	n, err := c.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "the first", string(buf[:n]))
}

// TestForgedPackets sends packets to the server's port from addresses that publish nothing.
func TestForgedPackets(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pub := publishTo(t, s, "/live/cam", gortsplib.ProtocolUDP)
	sub := play(t, s, "/live/cam", gortsplib.ProtocolTCP)
	pub.frames(5)
	sub.expects(1, 5)
	to, err := net.ResolveUDPAddr("udp", s.cfg.RTPAddress)
	require.NoError(t, err)
	forged, err := (&rtp.Packet{
		Header:  rtp.Header{Version: 2, PayloadType: 96, SequenceNumber: 6, Timestamp: 6 * 3600},
		Payload: framePayload(99),
	}).Marshal()
	require.NoError(t, err)
	for _, ip := range []string{"127.0.0.1", "127.0.0.2"} {
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(ip)}, to)
		require.NoError(t, err)
		for range 100 {
			_, err = c.Write(forged)
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
	}
	pub.frames(5)
	sub.expects(1, 10)
	require.EqualValues(t, 20, counted(t, s, "received_packets_total"))
}

// TestForeignPorts has other clients of the publisher's address name its UDP port, to play and to publish: they are
// refused, and the publisher's packets are its own. A session that ends gives its ports back.
func TestForeignPorts(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pub := s.dialWithPorts(t, "live/cam")
	record := func(path string) (*rtspwire.Conn, error) {
		c := s.dialWithPorts(t, path).Conn
		_, err := c.Record(rtspwire.H264, pub.port())
		return c, err
	}
	port, err := pub.Record(rtspwire.H264, pub.port())
	require.NoError(t, err)

	unsupported := func(err error) {
		t.Helper()
		var refused *rtspwire.StatusError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, base.StatusUnsupportedTransport, refused.Code)
	}
	sub := s.dialWithPorts(t, "live/cam").Conn
	_, err = sub.Play(pub.port())
	unsupported(err)
	_, err = sub.Do("SETUP", sub.Media(0), "", "Transport: RTP/AVP/TCP;unicast;interleaved=0-1")
	require.NoError(t, err)
	other, err := record("live/other")
	unsupported(err)
	for _, none := range []int{1 << 16, pub.port() + 1<<16} {
		c := s.dialWithPorts(t, fmt.Sprint("live/", none)).Conn
		_, err = c.Record(rtspwire.H264, none)
		unsupported(err)
		require.NoError(t, c.Close())
	}
	for _, c := range []*rtspwire.Conn{sub, other} {
		require.NoError(t, c.Close())
	}
	eventually(t, "the other publisher leaves", func() bool { return counted(t, s, "publishers") == 1 })

	b, err := (&rtp.Packet{Header: rtp.Header{Version: 2, PayloadType: 96}, Payload: framePayload(1)}).Marshal()
	require.NoError(t, err)
	_, err = pub.rtp.WriteTo(b, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	require.NoError(t, err)
	eventually(t, "the packet", func() bool { return counted(t, s, "received_packets_total") == 1 })

	require.NoError(t, pub.Teardown())
	eventually(t, "the publisher leaves", func() bool { return counted(t, s, "publishers") == 0 })
	n := 0
	eventually(t, "its ports are free", func() bool {
		n++
		_, err := record(fmt.Sprint("live/third", n))
		return err == nil
	})
}

// TestPortsOfASession has a session name ever more ports, for a media that does not exist.
func TestPortsOfASession(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	publishTo(t, s, "/live/cam", gortsplib.ProtocolTCP)
	url := "rtsp://" + s.Addr().String() + "/live/cam"
	res := dialRaw(t, s).ask("SETUP", url+"/trackID=0", "Transport: RTP/AVP;multicast")
	id := sessionOf(res)
	setUp := func(port int) base.StatusCode {
		transport := fmt.Sprintf("Transport: RTP/AVP;unicast;client_port=%d-%d", port, port+1)
		return dialRaw(t, s).ask("SETUP", url+"/trackID=9", transport, "Session: "+id).StatusCode
	}
	for i := range maxPorts / 2 {
		require.Equal(t, base.StatusBadRequest, setUp(9000+2*i))
	}
	require.Equal(t, base.StatusUnsupportedTransport, setUp(9000+maxPorts))
	require.Equal(t, base.StatusBadRequest, setUp(9000), "it has these")
}

// idleSoon is how long clients may be silent: long enough for those that are not, also on a busy machine.
const idleSoon = 3 * time.Second

// memoryPorts opens ports of a network in memory. It implements [Listener].
type memoryPorts struct{ *sim.Network }

func (p memoryPorts) Listen(_ context.Context, _, address string) (net.Listener, error) {
	return p.ListenTCP(netip.MustParseAddrPort(address))
}

func (p memoryPorts) ListenPacket(_ context.Context, _, address string) (net.PacketConn, error) {
	c, err := p.Network.Listen(netip.MustParseAddrPort(address))
	return memoryConn{c}, err
}

// memoryConn has all methods that the library wants of sockets.
type memoryConn struct{ *sim.Conn }

func (memoryConn) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

func (p memoryPorts) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return p.DialTCP(ctx, sim.Host(2), netip.MustParseAddrPort(address))
}

func (p memoryPorts) raw(t *testing.T, to net.Addr) *raw {
	t.Helper()
	c, err := p.dial(t.Context(), "tcp", to.String())
	require.NoError(t, err)
	return newRaw(t, c)
}

// inMemory runs a test with a server in virtual time.
func inMemory(t *testing.T, f func(t *testing.T, s *Server, ports memoryPorts)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ports := memoryPorts{sim.New(1, func(netip.Addr, netip.Addr) sim.Link { return sim.Link{} })}
		t.Cleanup(ports.Close)
		f(t, newServer(t, withTLS(t, "10.0.0.1:322"), func(c *Config) {
			c.Address, c.Listen, c.ReadTimeout, c.IdleTimeout = "10.0.0.1:554", ports, idleSoon, idleSoon
		}), ports)
	})
}

// TestSilentClients checks that sessions by UDP end when nothing comes.
func TestSilentClients(t *testing.T) {
	inMemory(t, func(t *testing.T, s *Server, ports memoryPorts) {
		const udp = "Transport: RTP/AVP;unicast;client_port=9000-9001"
		c := ports.raw(t, s.Addr())
		url := "rtsp://" + s.Addr().String() + "/live/"
		require.Equal(t, base.StatusOK, c.announce(url+"cam").StatusCode)
		id := sessionOf(c.ask("SETUP", url+"cam/trackID=0", udp+";mode=record"))
		require.Equal(t, base.StatusOK, c.ask("RECORD", url+"cam", "Session: "+id).StatusCode)
		require.EqualValues(t, 1, counted(t, s, "publishers"))
		time.Sleep(2 * idleSoon)
		require.Zero(t, counted(t, s, "publishers"))

		pub := &sender{t: t, desc: broadcast(), client: &gortsplib.Client{
			Protocol: protocol(gortsplib.ProtocolTCP), DialContext: ports.dial,
		}}
		require.NoError(t, pub.client.StartRecording(url+"other", pub.desc))
		t.Cleanup(pub.client.Close)
		c = ports.raw(t, s.Addr())
		id = sessionOf(c.ask("SETUP", url+"other/trackID=0", udp))
		require.Equal(t, base.StatusOK, c.ask("PLAY", url+"other", "Session: "+id).StatusCode)
		require.EqualValues(t, 1, counted(t, s, "players"))
		require.NoError(t, c.Close())
		for range 10 {
			pub.frames(1)
			time.Sleep(idleSoon / 4)
		}
		require.Zero(t, counted(t, s, "players"))
		require.EqualValues(t, 1, counted(t, s, "publishers"))
	})
}

// sessionOf returns the session that a response names.
func sessionOf(res base.Response) string {
	id, _, _ := strings.Cut(res.Header["Session"][0], ";")
	return id
}

// TestSilentConnections checks that silent connections end, before and after the handshake of TLS.
func TestSilentConnections(t *testing.T) {
	inMemory(t, func(t *testing.T, s *Server, ports memoryPorts) {
		after := tls.Client(ports.raw(t, s.TLSAddr()), &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, after.Handshake())
		for name, c := range map[string]io.Reader{
			"plain": ports.raw(t, s.Addr()), "before the handshake": ports.raw(t, s.TLSAddr()), "after it": after,
		} {
			_, err := io.ReadAll(c)
			require.NoError(t, err, name)
		}
	})
}

// TestTunnels asks for RTSP within HTTP and WebSocket, the first bytes one by one: the server answers nothing.
func TestTunnels(t *testing.T) {
	t.Parallel()
	s, conf := newTLSServer(t)
	for name, dial := range map[string]func() *raw{
		"rtsp":  func() *raw { return dialRaw(t, s) },
		"rtsps": func() *raw { return dialTLS(t, s, conf) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{
				"GET / HTTP/1.1\r\nHost: x\r\nAccept: application/x-rtsp-tunnelled\r\nX-Sessioncookie: 1\r\n\r\n",
				"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-rtsp-tunnelled\r\n" +
					"X-Sessioncookie: 1\r\n\r\n",
				"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
					"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
					"Sec-WebSocket-Protocol: rtsp.onvif.org\r\n\r\n",
			} {
				c := dial()
				for i := range 3 {
					_, err := c.Write([]byte{text[i]})
					require.NoError(t, err)
				}
				_, _ = c.Write([]byte(text[3:])) // the server may close at any byte
				answer, _ := io.ReadAll(c)
				require.Empty(t, answer)
			}
			res := dial().ask("GET_PARAMETER", "rtsp://127.0.0.1/live/cam", "Session: 1")
			require.Equal(t, base.StatusSessionNotFound, res.StatusCode)
		})
	}
}

// TestPlayerThatPublishes has a session publish that has asked for a media that does not exist. Its player leaves.
func TestPlayerThatPublishes(t *testing.T) {
	t.Parallel()
	r := newRelay(t, relay.Config{})
	s := newServer(t, func(c *Config) { c.Relay = r })
	publishTo(t, s, "/live/cam", gortsplib.ProtocolTCP)
	url := "rtsp://" + s.Addr().String() + "/live/"
	a, b := dialRaw(t, s), dialRaw(t, s)
	res := a.ask("SETUP", url+"cam/trackID=0", "Transport: RTP/AVP;multicast")
	id := sessionOf(res)
	tcp := "Transport: RTP/AVP/TCP;unicast;interleaved=0-1"
	require.Equal(t, base.StatusBadRequest, b.ask("SETUP", url+"cam/trackID=9", tcp, "Session: "+id).StatusCode)
	require.EqualValues(t, 2, counted(t, r, "sluice_relay_guests"))
	res = a.announce(url+"other", "Session: "+id)
	require.Equal(t, base.StatusMethodNotValidInThisState, res.StatusCode)
	eventually(t, "the player leaves", func() bool { return counted(t, r, "sluice_relay_guests") == 1 })
}

// FuzzPackets shifts any packet, which changes two fields and nothing else, and writes it to a stream.
func FuzzPackets(f *testing.F) {
	for _, header := range []rtp.Header{
		{Version: 2, PayloadType: 96}, {Version: 2, Marker: true, CSRC: []uint32{1, 2}},
		{Version: 2, Extension: true, ExtensionProfile: 0xbede, Padding: true, PaddingSize: 4},
		{Version: 2, PayloadType: 96, SequenceNumber: 1, Timestamp: 1}, // another group, which empties the cache
	} {
		b, err := (&rtp.Packet{Header: header, Payload: framePayload(1)}).Marshal()
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testlimit.Start(t, len(b), 1000)()
		var p rtp.Packet
		if p.Unmarshal(b) != nil {
			return
		}
		s := shift{sequence: 1 << 15, timestamp: 1 << 31}
		out := s.apply(&p)
		require.Equal(t, p.SequenceNumber+1<<15, out.SequenceNumber)
		require.Equal(t, p.Timestamp+1<<31, out.Timestamp)
		back := shift{1 << 15, 1 << 31}.apply(out)
		require.Equal(t, &p, back)
		testStreamOnce(t, &p)
	})
}

// testStreamOnce writes a packet to a stream, between two of its own.
func testStreamOnce(t *testing.T, p *rtp.Packet) {
	desc := broadcast()
	s := newStream(desc, cacheOf(1<<20), newMetrics())
	defer s.close()
	first := &rtp.Packet{Header: rtp.Header{SSRC: p.SSRC}, Payload: framePayload(1)}
	require.True(t, s.write(desc.Medias[0], first, time.Now(), time.Now()))
	require.True(t, s.write(desc.Medias[0], p, time.Now(), time.Now()))
	require.LessOrEqual(t, s.bytes, 1<<20)
	require.EqualValues(t, s.bytes+s.tail.bytes, s.cached.pool.inUse())
}
