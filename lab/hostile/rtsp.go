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
	run  func(*RTSPClient) error
	// SRTP is whether it attacks SRTP, if the client is secure.
	SRTP bool
}

// Run attacks the server once, until the context is done at the latest. The context then ends the connections.
func (a RTSPAttack) Run(ctx context.Context, c RTSPClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.ctx, c.own = ctx, fmt.Sprintf("flood/%d", rand.Uint64())
	return a.run(&c)
}

// RTSPAttacks are all attacks of clients of RTSP.
var RTSPAttacks = []RTSPAttack{
	{Name: "malformed requests", run: malformedRequests},
	{Name: "headers without end", run: endlessHeaders},
	{Name: "a line without end", run: endlessLine},
	{Name: "a body without end", run: endlessBody},
	{Name: "requests whose answers are not read", run: unreadAnswers},
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
	{Name: "other people's paths", run: otherPaths},
	{Name: "other people's paths, from their address", run: neighbours},
	{Name: "absurd parameter sets", run: parameterSets},
	{Name: "wrong tokens", run: wrongTokens},
	{Name: "keys that are none", run: absurdKeys, SRTP: true},
	{Name: "packets changed on their way", run: changedPackets, SRTP: true},
}

// dial connects, for a broadcast. The connection ends with the attack, and fails when the server takes too long.
func (c *RTSPClient) dial(path string) (*rtspwire.Conn, error) { return c.dialWith(path, c.Token) }

func (c *RTSPClient) dialWith(path, token string) (*rtspwire.Conn, error) {
	conn, err := rtspwire.Dial(c.ctx, c.From, c.Address, path, token, c.Secure)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	return conn, conn.SetDeadline(time.Now().Add(patience))
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

// slow returns an ErrUndefended for a connection on which the server was silent for too long, and the refusal of what
// has to be granted: the attack ends before it has done harm.
func slow(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return undefended("the server does not answer")
	}
	if refused, ok := errors.AsType[*rtspwire.StatusError](err); ok {
		return refused
	}
	return nil // it has ended the connection
}

// sleep returns an error when the attack ends.
func (c *RTSPClient) sleep(d time.Duration) error {
	select {
	case <-c.ctx.Done():
		return c.ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// playByUDP plays the victim by UDP.
func (c *RTSPClient) playByUDP() (*byUDP, error) {
	conn, err := c.dial(c.Victim)
	if err != nil {
		return nil, err
	}
	p := &byUDP{Conn: conn}
	if p.rtp, p.rtcp, err = rtspwire.Ports(conn.LocalAddr().(*net.TCPAddr).IP); err != nil {
		cut(conn)
		return nil, err
	}
	context.AfterFunc(c.ctx, func() { _ = errors.Join(p.rtp.Close(), p.rtcp.Close()) })
	port, err := conn.Play(p.rtp.LocalAddr().(*net.UDPAddr).Port)
	if err != nil {
		p.end()
		return nil, err
	}
	ip := conn.RemoteAddr().(*net.TCPAddr).IP
	p.toRTP, p.toRTCP = &net.UDPAddr{IP: ip, Port: port}, &net.UDPAddr{IP: ip, Port: port + 1}
	return p, nil
}

// without sends the beginning of a request and then the same again and again, until the server ends the connection.
func (c *RTSPClient) without(begin, more string) error {
	conn, err := c.dial(c.Victim)
	if err != nil {
		return err
	}
	defer cut(conn)
	_, err = conn.Write([]byte(begin))
	block := []byte(strings.Repeat(more, 1<<14/len(more)))
	for n := 0; err == nil; n += len(block) {
		if n >= endless {
			return errUnlimited
		}
		_, err = conn.Write(block)
	}
	return slow(err)
}

func (c *RTSPClient) publishThere(from net.IP) error {
	there := *c
	there.From = from
	for range 50 {
		conn, err := there.dial(c.Victim)
		if err != nil {
			return err
		}
		res, err := conn.Ask("ANNOUNCE", conn.URL(), rtspwire.H264, "Content-Type: application/sdp")
		cut(conn)
		if err != nil {
			return slow(err)
		}
		if res.StatusCode == base.StatusOK {
			return undefended("it publishes in another client's place")
		}
	}
	return nil
}

// ownBroadcast connects for a broadcast that nobody has.
func (c *RTSPClient) ownBroadcast(i int) (*rtspwire.Conn, error) {
	return c.dial(fmt.Sprintf("%s/%d", c.own, i))
}
