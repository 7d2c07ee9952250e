package interop

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

const (
	joinTime   = 90 * time.Second // for all subscribers
	joinAtOnce = 4                // handshakes at a time: they compete with media
)

// crowd is many subscribers of one track. Each is a QUIC connection and a MoQ session of its own, but they share a
// socket, and a single goroutine reads all that a session receives, so that they cost little beside the relay.
type crowd struct {
	b         *testing.B
	transport *quic.Transport
	relay     *net.UDPAddr
	quiet     bool // sessions send nothing by themselves
	track     moqt.FullTrackName
	bytes     atomic.Int64 // received by all
}

func newCrowd(b *testing.B, r *relay, track moqt.FullTrackName) *crowd {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(b, err)
	require.NoError(b, socket.SetReadBuffer(8<<20))
	c := &crowd{
		b: b, transport: &quic.Transport{Conn: socket},
		relay: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: r.port}, track: track,
	}
	b.Cleanup(func() {
		_ = c.transport.Close() // ends all connections
		_ = socket.Close()
	})
	return c
}

// join adds n subscribers.
func (c *crowd) join(n int) { c.enter(n, c.subscribe) }

// enter opens n sessions, and logs its progress.
func (c *crowd) enter(n int, open func(context.Context) error) {
	ctx, cancel := context.WithTimeout(c.b.Context(), joinTime)
	defer cancel()
	turns, joined := make(chan struct{}, joinAtOnce), make(chan error, n)
	go func() {
		for range n {
			turns <- struct{}{}
			go func() {
				joined <- open(ctx)
				<-turns
			}()
		}
	}()
	begin := time.Now()
	for i := range n {
		require.NoError(c.b, <-joined, "session %d of %d, after %v", i+1, n, time.Since(begin))
		if (i+1)%250 == 0 {
			c.b.Logf("%d sessions after %v", i+1, time.Since(begin).Round(100*time.Millisecond))
		}
	}
}

// open opens a session.
func (c *crowd) open(ctx context.Context) (*quic.Conn, error) {
	cfg := &quic.Config{EnableDatagrams: true, MaxIdleTimeout: time.Minute, KeepAlivePeriod: 20 * time.Second}
	if c.quiet {
		cfg.MaxIdleTimeout, cfg.KeepAlivePeriod = time.Hour, 0
	}
	conn, err := c.transport.Dial(ctx, c.relay, &tls.Config{InsecureSkipVerify: true, NextProtos: moqt.ALPNs()}, cfg)
	if err != nil {
		return nil, err
	}
	control, err := conn.OpenUniStream()
	if err != nil {
		return nil, err
	}
	authority := c.relay.String()
	return conn, send(control, &moqt.Setup{Path: new("/"), Authority: &authority})
}

// subscribe opens a session and subscribes.
func (c *crowd) subscribe(ctx context.Context) error {
	conn, err := c.open(ctx)
	if err != nil {
		return err
	}
	request, err := conn.OpenStream()
	if err != nil {
		return err
	}
	err = send(request, &moqt.Subscribe{
		Track: c.track, Parameters: moqt.Parameters{RendezvousTimeout: new(uint64(10_000))},
	})
	if err != nil {
		return err
	}
	_ = request.SetReadDeadline(time.Now().Add(joinTime))
	m, err := moqt.NewReader(request, moqt.Versions()[0]).Read()
	if err != nil {
		return err
	}
	if _, ok := m.(*moqt.SubscribeOK); !ok {
		return fmt.Errorf("the relay answers %v", m)
	}
	go c.receive(conn)
	return nil
}

func send(w io.Writer, m moqt.Message) error {
	b, err := moqt.AppendMessage(nil, moqt.Versions()[0], m)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// receive takes the streams of a session, one after the other.
func (c *crowd) receive(conn *quic.Conn) {
	for {
		stream, err := conn.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		c.drain(stream)
	}
}

// drain counts what comes on a stream. The control stream, which does not end, is left alone.
func (c *crowd) drain(stream *quic.ReceiveStream) {
	var first [moqt.MaxVarintLen]byte
	for n := 0; ; n++ {
		if _, err := io.ReadFull(stream, first[n:n+1]); err != nil {
			return
		}
		kind, err := moqt.ParseStreamKind(moqt.Versions()[0], first[:n+1])
		if errors.Is(err, moqt.ErrIncomplete) {
			continue
		}
		if err != nil || kind != moqt.StreamSubgroup {
			return
		}
		break
	}
	_, _ = io.Copy(counter{&c.bytes}, stream) // a reset ends it as well
}

// counter counts the bytes written to it.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}
