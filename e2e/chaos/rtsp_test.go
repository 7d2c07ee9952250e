package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pion/rtp"

	"sluice/rtsp/rtspwire"
)

// rtspVariable is the environment variable with the task of an honest client of RTSP, which is this test's program.
const rtspVariable = "SLUICE_TEST_RTSP"

// rtspTask is what an honest client of RTSP does.
type rtspTask struct {
	Publishes bool   `json:"publishes"`
	UDP       bool   `json:"udp"`
	Lossy     bool   `json:"lossy"` // the publisher's packets come by UDP, and nobody sends them again to the relay
	Address   string `json:"address"`
	Path      string `json:"path"`
}

// ready is what a client writes when its media flows.
const ready = "ready"

// beRTSP is an honest client of RTSP. It returns the exit code.
func beRTSP(text string) int {
	var t rtspTask
	err := json.Unmarshal([]byte(text), &t)
	if err == nil && t.Publishes {
		err = t.publish()
	} else if err == nil {
		err = t.play()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// rtspClient is a connection with two UDP ports, or none.
type rtspClient struct {
	*rtspwire.Conn
	rtp, rtcp *net.UDPConn
	ended     chan error // of the connection
}

func (t *rtspTask) connect() (c *rtspClient, err error) {
	c = &rtspClient{ended: make(chan error, 1)}
	c.Conn, err = rtspwire.Dial(context.Background(), nil, t.Address, t.Path, honestToken, false)
	if err != nil || !t.UDP {
		return c, err
	}
	if c.rtp, c.rtcp, err = rtspwire.Ports(c.LocalAddr().(*net.TCPAddr).IP); err != nil {
		return nil, err
	}
	return c, c.rtp.SetReadBuffer(1 << 20)
}

// port is the UDP port for RTP, or 0.
func (c *rtspClient) port() int {
	if c.rtp == nil {
		return 0
	}
	return c.rtp.LocalAddr().(*net.UDPAddr).Port
}

// server is an address of the server by UDP.
func (c *rtspClient) server(port int) *net.UDPAddr {
	return &net.UDPAddr{IP: c.RemoteAddr().(*net.TCPAddr).IP, Port: port}
}

// read reads what comes on the connection. Packets go to take.
func (c *rtspClient) read(take func([]byte) error) {
	for {
		_, frame, err := c.Next()
		if err == nil && frame != nil && frame.Channel == 0 {
			err = take(frame.Payload)
		}
		if err != nil {
			c.ended <- err
			return
		}
	}
}

// frameInterval is the time between two packets.
const frameInterval = 20 * time.Millisecond

// publish sends a packet each frameInterval. After the first SIGTERM these are marked as the last ones, and after the
// second it ends.
func (t *rtspTask) publish() error {
	c, err := t.connect()
	if err != nil {
		return err
	}
	port, err := c.Record(rtspwire.H264, c.port())
	if err != nil {
		return err
	}
	go c.read(func([]byte) error { return nil })
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM)
	tick := time.NewTicker(frameInterval)
	defer tick.Stop()
	fmt.Println(ready)
	for n, isLast := uint32(1), false; ; n++ {
		select {
		case <-tick.C:
		case err := <-c.ended:
			return fmt.Errorf("the relay has ended the session: %w", err)
		case <-signals:
			if isLast {
				return c.Send("TEARDOWN", c.URL(), "")
			}
			isLast = true
		}
		if err := c.send(rtspPacket(n, isLast), port); err != nil {
			return err
		}
	}
}

// send sends a packet of RTP.
func (c *rtspClient) send(b []byte, port int) error {
	if c.rtp == nil {
		_, err := c.Write(rtspwire.Frame(0, b))
		return err
	}
	_, err := c.rtp.WriteTo(b, c.server(port))
	return err
}

// rtspPacket is the n-th packet of a broadcast.
func rtspPacket(n uint32, isLast bool) []byte {
	b, err := (&rtp.Packet{
		Header: rtp.Header{
			Version: 2, Marker: true, PayloadType: 96, SequenceNumber: uint16(n), Timestamp: 1800 * n, SSRC: 1,
		},
		Payload: framePayload(n, isLast),
	}).Marshal()
	if err != nil {
		panic(err) // the header is a fixed one
	}
	return b
}

// Times of a player.
const (
	aliveInterval = 2 * time.Second        // between two signs of life
	askInterval   = 100 * time.Millisecond // between two lists of missing packets
	lateWait      = 5 * time.Second        // for missing packets, after the last one
)

// play plays until the last packet has come, and all before it.
func (t *rtspTask) play() error {
	c, err := t.connect()
	if err != nil {
		return err
	}
	port, err := c.Play(c.port())
	if err != nil {
		return err
	}
	packets := make(chan []byte, 1000)
	take := func(b []byte) error {
		packets <- b
		return nil
	}
	go c.read(take)
	if c.rtp != nil {
		go c.readUDP(take)
	}
	p := newPlayback(t.UDP)
	if err := t.watch(c, p, packets, port+1); err != nil {
		return fmt.Errorf("%w; %v", err, p)
	}
	fmt.Println(p)
	return c.Send("TEARDOWN", c.URL(), "")
}

// readUDP reads what comes by UDP.
func (c *rtspClient) readUDP(take func([]byte) error) {
	for {
		b := make([]byte, 2048)
		n, err := c.rtp.Read(b)
		if err == nil {
			err = take(b[:n])
		}
		if err != nil {
			c.ended <- err
			return
		}
	}
}

// watch compares all packets, and asks for those that are missing.
func (t *rtspTask) watch(c *rtspClient, p *playback, packets <-chan []byte, port int) error {
	alive, ask := time.NewTicker(aliveInterval), time.NewTicker(askInterval)
	defer alive.Stop()
	defer ask.Stop()
	for !p.isWhole() {
		var err error
		select {
		case b := <-packets:
			err = p.take(b)
			if len(p.got) == 1 {
				fmt.Println(ready)
			}
		case <-alive.C:
			err = c.Send("OPTIONS", c.URL(), "")
		case <-ask.C:
			if report := p.complaint(); report != nil && c.rtcp != nil {
				_, err = c.rtcp.WriteTo(report, c.server(port))
			}
		case err = <-c.ended:
			err = fmt.Errorf("the session has ended: %w", err)
		}
		if err != nil {
			return err
		}
		if late := p.late(); late > lateWait && t.Lossy && p.isNearlyWhole() {
			return nil
		} else if late > lateWait {
			return errors.New("packets are missing")
		}
	}
	return nil
}
