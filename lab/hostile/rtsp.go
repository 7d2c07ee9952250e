package hostile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/base"

	"sluice/rtsp/rtspwire"
)

// RTSPClient is a client of RTSP that does harm, on as many connections as it likes.
type RTSPClient struct {
	// Address is the server's, "host:port".
	Address string
	// Secure is whether the server speaks RTSP over TLS (rtsps) there. Its certificate may be any.
	Secure bool
	// From is the client's address. Default: the system chooses.
	From net.IP
	// Token may publish and play everything, or is empty.
	Token string
	// Beside is the address of the client that publishes the victim, if the attacker has it, too.
	Beside net.IP
	// Victim is the path of a broadcast that another client publishes by RTSP, and MoQ the path of a broadcast of MoQ,
	// if there is one.
	Victim, MoQ string

	ctx context.Context
	own string // the path that it publishes at
}

// RTSPAttack is an attack by a client of RTSP.
type RTSPAttack struct {
	Name string
	run  func(*RTSPClient)
	// SRTP is whether it attacks SRTP, if the client is secure.
	SRTP bool
}

// Run attacks the server once, until the context is done at the latest. The context then ends the connections.
func (a RTSPAttack) Run(ctx context.Context, c RTSPClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.ctx, c.own = ctx, fmt.Sprintf("flood/%d", rand.Uint64())
	return attempt(func() { a.run(&c) })
}

// RTSPAttacks are all attacks of clients of RTSP.
var RTSPAttacks = []RTSPAttack{
	{Name: "malformed requests", run: malformedRequests},
	{Name: "headers without end", run: func(c *RTSPClient) {
		c.without("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n", "X: y\r\n")
	}},
	{Name: "a line without end", run: func(c *RTSPClient) { c.without("DESCRIBE rtsp://x/", "x") }},
	{Name: "a body without end", run: func(c *RTSPClient) {
		c.without("ANNOUNCE rtsp://x/y RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 99999999999\r\n\r\n", "x")
	}},
	{Name: "requests whose answers are not read", run: func(c *RTSPClient) {
		c.without("", "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")
	}},
	{Name: "a byte a second", run: slowRequests},
	{Name: "connections without end", run: connections},
	{Name: "sessions that begin and end", run: sessions},
	{Name: "sessions that are left", run: abandonedSessions},
	{Name: "TEARDOWN amid packets", run: teardowns},
	{Name: "absurd descriptions", run: descriptions},
	{Name: "garbage in packets", run: garbagePackets},
	{Name: "packets from elsewhere", run: foreignPackets},
	{Name: "NACK without end", run: nacks},
	{Name: "players that do not read", run: unreadPackets},
	{Name: "players of nobody's broadcasts", run: nobodys},
	{Name: "other people's paths", run: func(c *RTSPClient) { c.publishThere(c.From) }},
	{Name: "other people's paths, from their address", run: neighbours},
	{Name: "absurd parameter sets", run: parameterSets},
	{Name: "wrong tokens", run: wrongTokens},
	{Name: "keys that are none", run: absurdKeys, SRTP: true},
	{Name: "packets changed on their way", run: changedPackets, SRTP: true},
}

// dial connects, for a broadcast. The connection ends with the attack, and fails when the server takes too long.
func (c *RTSPClient) dial(path string) *rtspwire.Conn { return c.dialWith(path, c.Token) }

func (c *RTSPClient) dialWith(path, token string) *rtspwire.Conn {
	conn := got(rtspwire.Dial(c.ctx, c.From, c.Address, path, token, c.Secure))
	context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	must(conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// ownBroadcast connects for a broadcast that nobody has.
func (c *RTSPClient) ownBroadcast(i int) *rtspwire.Conn {
	return c.dial(fmt.Sprintf("%s/%d", c.own, i))
}

// url is the URL of a broadcast.
func (c *RTSPClient) url(path string) string {
	if c.Secure {
		return "rtsps://" + c.Address + "/" + path
	}
	return "rtsp://" + c.Address + "/" + path
}

// answer waits until the server answers on a connection.
func answer(conn *rtspwire.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := conn.Do("OPTIONS", conn.URL(), "")
	return err
}

// cut ends a connection without saying so: the server gets RST.
func cut(conn *rtspwire.Conn) {
	_ = conn.TCP().SetLinger(0)
	_ = conn.TCP().Close()
}

// slow ends the attack if a connection has failed because the server was silent for too long, or has refused what has
// to be granted: then the attack has done no harm yet. Else the server has ended the connection.
func slow(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		undefended("the server does not answer")
	}
	if refused, ok := errors.AsType[*rtspwire.StatusError](err); ok {
		must(refused)
	}
}

// granted ends the attack if there is an error. That is right if the server has ended the connection.
func granted(err error) {
	if err != nil {
		slow(err)
		panic(over{})
	}
}

// sleep sleeps. The attack ends with its context.
func (c *RTSPClient) sleep(d time.Duration) {
	select {
	case <-c.ctx.Done():
		must(c.ctx.Err())
	case <-time.After(d):
	}
}

// playByUDP plays the victim by UDP.
func (c *RTSPClient) playByUDP() *byUDP {
	p := &byUDP{Conn: c.dial(c.Victim)}
	var err error
	if p.rtp, p.rtcp, err = rtspwire.Ports(p.LocalAddr().(*net.TCPAddr).IP); err != nil {
		cut(p.Conn)
		granted(err)
	}
	context.AfterFunc(c.ctx, func() { _ = errors.Join(p.rtp.Close(), p.rtcp.Close()) })
	port, err := p.Play(p.rtp.LocalAddr().(*net.UDPAddr).Port)
	if err != nil {
		p.end()
		granted(err)
	}
	ip := p.RemoteAddr().(*net.TCPAddr).IP
	p.toRTP, p.toRTCP = &net.UDPAddr{IP: ip, Port: port}, &net.UDPAddr{IP: ip, Port: port + 1}
	return p
}

// without sends the beginning of a request and then the same again and again, until the server ends the connection.
func (c *RTSPClient) without(begin, more string) {
	conn := c.dial(c.Victim)
	defer cut(conn)
	_, err := conn.Write([]byte(begin))
	block := []byte(strings.Repeat(more, 1<<14/len(more)))
	for n := 0; err == nil; n += len(block) {
		if n >= endless {
			unlimited()
		}
		_, err = conn.Write(block)
	}
	slow(err) // it ends connections whose client reads nothing
}

func (c *RTSPClient) publishThere(from net.IP) {
	there := *c
	there.From = from
	for range 50 {
		conn := there.dial(c.Victim)
		res, err := conn.Ask("ANNOUNCE", conn.URL(), rtspwire.H264, "Content-Type: application/sdp")
		cut(conn)
		granted(err)
		if res.StatusCode == base.StatusOK {
			undefended("it publishes in another client's place")
		}
	}
}
