package hostile

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/base"

	"sluice/rtsp/rtspwire"
)

// malformedRequests sends requests that no server may grant.
func malformedRequests(c *RTSPClient) {
	url := c.url(c.Victim)
	for _, text := range []string{
		"\x00\x01\x02\xff\r\n\r\n",
		"DESCRIBE\r\n\r\n",
		"DESCRIBE " + url + " RTSP/1.0\r\n\r\n", // no CSeq
		"DESCRIBE " + url + " RTSP/9.9\r\nCSeq: 1\r\n\r\n",
		"DESCRIBE rtsp://x/%00/%ff RTSP/1.0\r\nCSeq: 1\r\n\r\n",
		"DESCRIBE rtsp://x/.session/1 RTSP/1.0\r\nCSeq: 1\r\n\r\n",
		"PLAY " + url + " RTSP/1.0\r\nCSeq: 1\r\n\r\n",
		"PAUSE " + url + " RTSP/1.0\r\nCSeq: 1\r\nSession: 1\r\n\r\n",
		"RECORD " + url + " RTSP/1.0\r\nCSeq: 1\r\nSession: 1\r\n\r\n",
		"TEARDOWN " + url + " RTSP/1.0\r\nCSeq: 1\r\nSession: 1\r\nSession: 2\r\n\r\n",
		"SETUP " + url + "/trackID=99 RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP;unicast;client_port=1-99999\r\n\r\n",
		"SETUP " + url + "/trackID=0 RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP/TCP;interleaved=254-999\r\n\r\n",
		"SETUP " + url + "/trackID=0 RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP;multicast\r\n\r\n",
		"SETUP " + url + "/trackID=0 RTSP/1.0\r\nCSeq: 1\r\n\r\n",
		"SETUP " + url + "/trackID=0 RTSP/1.0\r\nCSeq: 1\r\nTransport: " + strings.Repeat(",", 2000) + "\r\n\r\n",
		"ANNOUNCE " + url + " RTSP/1.0\r\nCSeq: 1\r\nContent-Length: -1\r\n\r\n",
		"ANNOUNCE " + url + " RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\nContent-Length: 4\r\n\r\nv=0\r",
		"GET / HTTP/1.1\r\nHost: x\r\nAccept: application/x-rtsp-tunnelled\r\nX-Sessioncookie: 1\r\n\r\n",
		"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n",
		"$\x00\xff\xff" + strings.Repeat("x", 1000),
	} {
		conn := c.dial(c.Victim)
		text = strings.Replace(text, "CSeq: 1\r\n", "CSeq: 1\r\nAuthorization: Bearer "+c.Token+"\r\n", 1)
		_, _ = conn.Write([]byte(text)) // the server may have closed it
		_ = conn.Conn.(interface{ CloseWrite() error }).CloseWrite()
		answer, err := io.ReadAll(io.LimitReader(conn, 1<<20))
		_ = conn.Close()
		if strings.HasPrefix(string(answer), "RTSP/1.0 200") {
			undefended("the server grants %q", text)
		}
		slow(err)
	}
}

// endless is more than the server and the buffers of both hosts take.
const endless = 64 << 20

// slowRequests sends a byte a second of many requests.
func slowRequests(c *RTSPClient) {
	const many = 30
	var conns []*rtspwire.Conn
	for range many {
		conn := c.dial(c.Victim)
		defer cut(conn)
		conns = append(conns, conn)
	}
	for _, b := range []byte("DESCRIBE rtsp://x/y RTSP/1.0") {
		for _, conn := range conns {
			if _, err := conn.Write([]byte{b}); err != nil {
				return // the server ends requests that take too long
			}
		}
		c.sleep(time.Second)
	}
}

// maxConnections is how many connections a server may serve of a source address.
const maxConnections = 256

// connections opens more connections than one address may have, and asks on each.
func connections(c *RTSPClient) {
	var conns []*rtspwire.Conn
	for range maxConnections + 50 {
		conn := c.dial(c.Victim)
		defer cut(conn)
		conns = append(conns, conn)
	}
	served := 0
	for _, conn := range conns {
		err := answer(conn)
		if slow(err); err == nil {
			served++
		}
	}
	if served > maxConnections {
		undefended("the server serves %d connections", served)
	}
}

// neighbours publishes where somebody else does, from the same address.
func neighbours(c *RTSPClient) {
	if c.Beside != nil {
		c.publishThere(c.Beside)
	}
}

// wrongTokens asks for everything with tokens that nobody has, in all places where a token may be.
func wrongTokens(c *RTSPClient) {
	for i := range 30 {
		wrong := strings.Repeat("wrong", i*i)
		for _, ask := range []func(*rtspwire.Conn) (*base.Response, error){
			func(conn *rtspwire.Conn) (*base.Response, error) { return conn.Ask("DESCRIBE", conn.URL(), "") },
			func(conn *rtspwire.Conn) (*base.Response, error) {
				return conn.Ask("DESCRIBE", conn.URL()+"?token="+wrong+"&token="+c.Token, "")
			},
			func(conn *rtspwire.Conn) (*base.Response, error) {
				return conn.Ask("SETUP", conn.Media(0), "", "Transport: RTP/AVP/TCP;unicast;interleaved=0-1",
					"Authorization: Basic "+wrong)
			},
			func(conn *rtspwire.Conn) (*base.Response, error) {
				return conn.Ask("ANNOUNCE", conn.URL(), rtspwire.H264, "Content-Type: application/sdp")
			},
		} {
			conn := c.dialWith(c.Victim, "x"+wrong)
			res, err := ask(conn)
			cut(conn)
			if slow(err); err == nil && res.StatusCode == base.StatusOK {
				undefended("the server takes the token %q", "x"+wrong)
			}
		}
	}
}

// nobodys asks for broadcasts that do not exist, in many ways, and leaves before the server has found that out.
func nobodys(c *RTSPClient) {
	for i := range 50 {
		conn := c.ownBroadcast(i)
		query := fmt.Sprintf("?nack=1&rendition=%d&max-bitrate=%d", i, i)
		granted(conn.Send("DESCRIBE", conn.URL()+query, ""))
		if i%2 == 0 {
			cut(conn)
			continue
		}
		defer cut(conn)
	}
	conn := c.dial(c.own)
	defer cut(conn)
	res, err := conn.Ask("DESCRIBE", conn.URL(), "")
	if slow(err); err == nil && res.StatusCode == base.StatusOK {
		undefended("the server describes what nobody publishes")
	}
}
