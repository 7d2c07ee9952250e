package rtspwire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/bluenviron/gortsplib/v5/pkg/conn"
	"github.com/bluenviron/gortsplib/v5/pkg/headers"
)

// Conn is the connection of a client. One goroutine may read while others write.
type Conn struct {
	net.Conn
	tcp   *net.TCPConn
	url   string // of the broadcast
	token string

	reader *conn.Conn

	mu      sync.Mutex
	session string // of the latest response
	number  int    // of the latest request
}

// Dial connects to a server, for a broadcast with a path such as "live/camera". The token may be "", and the address of
// the client nil. With TLS (rtsps) the server may show any certificate.
func Dial(ctx context.Context, from net.IP, address, path, token string, secure bool) (*Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	tcp, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: tcp, tcp: tcp.(*net.TCPConn), url: "rtsp://" + address + "/" + path, token: token}
	if secure {
		c.Conn, c.url = tls.Client(tcp, &tls.Config{InsecureSkipVerify: true}), "rtsps://"+address+"/"+path
	}
	c.reader = conn.NewConn(bufio.NewReader(c.Conn), c.Conn)
	return c, nil
}

// TCP returns the connection below TLS, or the connection itself.
func (c *Conn) TCP() *net.TCPConn { return c.tcp }

// URL returns the URL of the broadcast.
func (c *Conn) URL() string { return c.url }

// Media is the URL of the broadcast's n-th media.
func (c *Conn) Media(n int) string { return fmt.Sprintf("%s/trackID=%d", c.url, n) }

// Session is the id of the session that the server has named last, or "".
func (c *Conn) Session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

func (c *Conn) setSession(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = id
}

// next returns the number of the next request.
func (c *Conn) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	return c.number
}

// Send sends a request, with the token and the session. A body follows the headers.
func (c *Conn) Send(method, url, body string, more ...string) error {
	lines := []string{method + " " + url + " RTSP/1.0", fmt.Sprint("CSeq: ", c.next())}
	if c.token != "" {
		lines = append(lines, "Authorization: Bearer "+c.token)
	}
	if id := c.Session(); id != "" {
		lines = append(lines, "Session: "+id)
	}
	lines = append(lines, more...)
	if body != "" {
		lines = append(lines, fmt.Sprint("Content-Length: ", len(body)))
	}
	_, err := c.Write([]byte(strings.Join(lines, "\r\n") + "\r\n\r\n" + body))
	return err
}

// Ask sends a request and waits for its response. It drops packets that come before.
func (c *Conn) Ask(method, url, body string, more ...string) (*base.Response, error) {
	if err := c.Send(method, url, body, more...); err != nil {
		return nil, err
	}
	for {
		res, _, err := c.Next()
		if res != nil || err != nil {
			return res, err
		}
	}
}

// Next waits for the next response or packet.
func (c *Conn) Next() (*base.Response, *base.InterleavedFrame, error) {
	what, err := c.reader.Read()
	if err != nil {
		return nil, nil, err
	}
	switch what := what.(type) {
	case *base.InterleavedFrame:
		return nil, what, nil
	case *base.Response:
		if h := what.Header["Session"]; len(h) > 0 {
			id, _, _ := strings.Cut(h[0], ";")
			c.setSession(id)
		}
		return what, nil, nil
	}
	return nil, nil, errors.New("a server that asks")
}

// StatusError is a response that refuses a request.
type StatusError struct {
	Method  string
	Code    base.StatusCode
	Message string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s: %d %s", e.Method, e.Code, e.Message) }

// Do is Ask for requests that have to be granted: other answers are a *[StatusError].
func (c *Conn) Do(method, url, body string, more ...string) (*base.Response, error) {
	res, err := c.Ask(method, url, body, more...)
	if err == nil && res.StatusCode != base.StatusOK {
		err = &StatusError{method, res.StatusCode, res.StatusMessage}
	}
	return res, err
}

// transport returns the header of a SETUP. Without a port, packets are on the connection.
func transport(port int, mode string) string {
	t := "RTP/AVP/TCP;unicast;interleaved=0-1"
	if port != 0 {
		t = fmt.Sprintf("RTP/AVP;unicast;client_port=%d-%d", port, port+1)
	}
	return "Transport: " + t + mode
}

// Play begins to play the first media, by UDP to a port, or on the connection if it is 0. It returns the server's port
// for RTP, if that is by UDP.
func (c *Conn) Play(port int) (int, error) {
	server, err := c.setUp(transport(port, ""))
	if err != nil {
		return 0, err
	}
	_, err = c.Do("PLAY", c.url, "")
	return server, err
}

// Record begins to publish a description, whose only media is sent as for Play.
func (c *Conn) Record(sdp string, port int) (int, error) {
	if _, err := c.Do("ANNOUNCE", c.url, sdp, "Content-Type: application/sdp"); err != nil {
		return 0, err
	}
	server, err := c.setUp(transport(port, ";mode=record"))
	if err != nil {
		return 0, err
	}
	_, err = c.Do("RECORD", c.url, "")
	return server, err
}

// Teardown ends the session. The connection may begin another.
func (c *Conn) Teardown() error {
	_, err := c.Do("TEARDOWN", c.url, "")
	c.setSession("")
	return err
}

// setUp sets up the first media.
func (c *Conn) setUp(header string) (port int, err error) {
	res, err := c.Do("SETUP", c.Media(0), "", header)
	if err != nil {
		return 0, err
	}
	var t headers.Transport
	if err := t.Unmarshal(res.Header["Transport"]); err != nil || t.ServerPorts == nil {
		return 0, err
	}
	return t.ServerPorts[0], nil
}

// Frame returns a packet as it is on the connection.
func Frame(channel byte, packet []byte) []byte {
	return append([]byte{base.InterleavedFrameMagicByte, channel, byte(len(packet) >> 8), byte(len(packet))}, packet...)
}

// H264 describes a broadcast with one video.
const H264 = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\n" +
	"a=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1\r\na=control:trackID=0\r\n"

// Ports opens two UDP ports, for RTP and RTCP: the first one is even.
func Ports(ip net.IP) (rtp, rtcp *net.UDPConn, err error) {
	for range 1000 {
		if rtp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: ip}); err != nil {
			return nil, nil, err
		}
		port := rtp.LocalAddr().(*net.UDPAddr).Port
		if port%2 == 0 {
			if rtcp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: ip, Port: port + 1}); err == nil {
				return rtp, rtcp, nil
			}
		}
		_ = rtp.Close()
	}
	return nil, nil, errors.Join(errors.New("there are no two free ports"), err)
}
