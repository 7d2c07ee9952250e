package estimate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/lab/sim"
	"sluice/transport"
)

// Workload is what the ends of a connection send.
type Workload string

// Workloads.
const (
	Bulk   Workload = "bulk"          // the server sends as fast as it can
	Media  Workload = "media"         // the server sends video of 1 Mbit/s
	Sparse Workload = "sparse"        // the server sends 10 packets a second
	Both   Workload = "bidirectional" // both send video of 1 Mbit/s
)

// Case is a connection and its path.
type Case struct {
	Workload Workload
	RTT      time.Duration // without queues
	Loss     float64       // of packets in each direction
	Jitter   time.Duration // how much longer a packet may take to the client, and one from it
}

// Name returns a short name.
func (c Case) Name() string {
	return fmt.Sprintf("%s/%d/%g/%d", c.Workload, c.RTT.Milliseconds(), 100*c.Loss, c.Jitter.Milliseconds())
}

const (
	linkRate   = 50e6 / 8             // bytes a second, in each direction
	minQueue   = 5 * time.Millisecond // before the link, or a quarter of the RTT if that is more
	warmUp     = 2 * time.Second      // with the handshake
	jitterStep = 10 * time.Millisecond
	windowed   = 20 * time.Second // an estimate is made of the packets of so much time
	windows    = 3                // that follow each other
	lasting    = warmUp + windows*windowed
)

// Window is a period of a connection: the packets that two observers have seen, and the true RTT.
type Window struct {
	// Client has the packets that passed the client, Middle those that passed half way, before the link's queue.
	Client, Middle []Packet
	RTT            time.Duration // of the path between the ends with its queues: the median over packets
	Smoothed       time.Duration // what the server's congestion control has for it, at the end
}

var (
	serverAt = netip.AddrPortFrom(sim.Host(1), 443)
	clientAt = netip.AddrPortFrom(sim.Host(2), 50000)
)

// path is the network of a case, and what passes on it.
type path struct {
	Case
	random         [2]*rand.Rand // of the server's packets and the client's
	begin          time.Time
	jitter         [2][]time.Duration // every jitterStep
	lost           bool               // the packet that is being sent is lost at random,
	early          bool               // before it has come to the middle,
	late           time.Duration      // and has this much jitter
	client, middle []Packet
	took           [2][]crossing
}

// crossing is when a packet was sent, and how long it took.
type crossing struct{ at, took time.Duration }

// Run has a connection in virtual time. Losses follow from the seed.
func Run(t *testing.T, c Case, seed uint64) (all []Window) {
	synctest.Test(t, func(t *testing.T) {
		p := &path{Case: c, begin: time.Now()}
		for i := range p.random {
			p.random[i] = rand.New(rand.NewPCG(seed, uint64(i)))
			for range lasting/jitterStep + 2 {
				p.jitter[i] = append(p.jitter[i], time.Duration(p.random[i].Float64()*float64(c.Jitter)))
			}
		}
		network := sim.New(seed, p.link)
		defer network.Close()
		network.Watch(p.pass)
		smoothed, err := c.connect(network, p.begin, rand.New(rand.NewPCG(seed, 2)))
		if err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
		network.Watch(nil)
		all = p.windows(smoothed)
	})
	return all
}

// link is called before pass, with each packet.
func (p *path) link(from, _ netip.Addr) sim.Link {
	way := 0
	if from == clientAt.Addr() {
		way = 1
	}
	p.lost, p.early = p.random[way].Float64() < p.Loss, p.random[way].IntN(2) == 0
	p.late = p.lateness(p.jitter[way], time.Since(p.begin))
	return sim.Link{Delay: p.RTT/2 + p.late, Rate: linkRate, Queue: max(p.RTT/4, minQueue), Down: p.lost}
}

// lateness returns the jitter at a time. It changes so slowly that no packet overtakes another.
func (p *path) lateness(jitter []time.Duration, at time.Duration) time.Duration {
	i := min(int(at/jitterStep), len(jitter)-2)
	return jitter[i] + (jitter[i+1]-jitter[i])*(at%jitterStep)/jitterStep
}

// pass notes when observers see a packet. Queue, link and jitter are between the middle and the client. Whether the
// delay before the queue is before or behind it makes no difference to the ends.
func (p *path) pass(packet sim.Packet) {
	sent, server := packet.At.Sub(p.begin), packet.From == serverAt
	seen := Packet{Size: len(packet.Data), Server: server}
	if !p.lost || !p.early {
		if seen.At = sent + p.RTT/4; !server {
			seen.At += p.late
		}
		p.middle = append(p.middle, seen)
	}
	if !server {
		seen.At = sent
		p.client = append(p.client, seen)
	}
	if len(packet.Arrivals) == 0 {
		return
	}
	took := packet.Arrivals[0].Sub(packet.At)
	if server {
		seen.At = sent + took
		p.client = append(p.client, seen)
		p.took[0] = append(p.took[0], crossing{sent, took})
	} else {
		p.took[1] = append(p.took[1], crossing{sent, took})
	}
}

// windows divides the packets of the connection into periods.
func (p *path) windows(smoothed []time.Duration) (all []Window) {
	for i, s := range smoothed {
		from := warmUp + time.Duration(i)*windowed
		w := Window{Client: between(p.client, from), Middle: between(p.middle, from), Smoothed: s}
		for _, crossings := range p.took {
			var took []time.Duration
			for _, c := range crossings {
				if c.at >= from && c.at < from+windowed {
					took = append(took, c.took)
				}
			}
			w.RTT += median(took)
		}
		all = append(all, w)
	}
	return all
}

// between returns the packets of a period, in order.
func between(all []Packet, from time.Duration) (some []Packet) {
	for _, p := range all {
		if p.At >= from && p.At < from+windowed {
			some = append(some, p)
		}
	}
	slices.SortStableFunc(some, func(a, b Packet) int { return int(a.At - b.At) })
	return some
}

// connect has the ends talk, and returns what the server takes for the RTT at the end of each window.
func (c Case) connect(n *sim.Network, begin time.Time, random *rand.Rand) (smoothed []time.Duration, err error) {
	certificate, _, err := transport.DevCertificate()
	if err != nil {
		return nil, err
	}
	const protocol = "estimate"
	server, serverConn, err := listen(n, serverAt)
	if err != nil {
		return nil, err
	}
	client, clientConn, err := listen(n, clientAt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close(), server.Close(), clientConn.Close(), serverConn.Close()) }()
	listener, err := server.Listen(&tls.Config{
		Certificates: []tls.Certificate{certificate}, NextProtos: []string{protocol},
	}, nil)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	ctx := context.Background()
	theirs, err := client.Dial(ctx, serverConn.LocalAddr(), &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{protocol},
	}, nil)
	if err != nil {
		return nil, err
	}
	ours, err := listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	var talk sync.WaitGroup
	defer talk.Wait()
	defer ours.CloseWithError(0, "")
	end, other := begin.Add(lasting), rand.New(rand.NewPCG(random.Uint64(), 0))
	talk.Go(func() { c.Workload.send(ours, end, random) })
	talk.Go(func() { receive(theirs) })
	if c.Workload == Both {
		talk.Go(func() { c.Workload.send(theirs, end, other) })
		talk.Go(func() { receive(ours) })
	}
	for i := range windows {
		time.Sleep(time.Until(begin.Add(warmUp + time.Duration(i+1)*windowed)))
		smoothed = append(smoothed, ours.ConnectionStats().SmoothedRTT)
	}
	return smoothed, context.Cause(ours.Context())
}

func listen(n *sim.Network, at netip.AddrPort) (*quic.Transport, *sim.Conn, error) {
	conn, err := n.Listen(at)
	return &quic.Transport{Conn: conn}, conn, err
}

func receive(conn *quic.Conn) {
	if stream, err := conn.AcceptUniStream(context.Background()); err == nil {
		_, _ = io.Copy(io.Discard, stream)
	}
}

// send sends on one stream until a time.
func (w Workload) send(conn *quic.Conn, end time.Time, random *rand.Rand) {
	stream, err := conn.OpenUniStream()
	for frame := 0; err == nil && time.Now().Before(end); frame++ {
		size, wait := w.next(frame, random)
		if _, err = stream.Write(make([]byte, size)); wait > 0 {
			time.Sleep(wait)
		}
	}
}

// next returns the size of a frame and the time until the next one. Frames of video are 40 ms from each other, give or
// take 2, and a key frame every 2 s is five times as large as the others. Messages are 80 to 120 ms from each other.
func (w Workload) next(frame int, random *rand.Rand) (size int, wait time.Duration) {
	vary := func(around, by time.Duration) time.Duration {
		return around - by + time.Duration(random.Int64N(int64(2*by)))
	}
	switch w {
	case Bulk:
		return 1 << 16, 0
	case Sparse:
		return 200, vary(100*time.Millisecond, 20*time.Millisecond)
	}
	size = 3200 + random.IntN(2800)
	if frame%50 == 0 {
		size *= 5
	}
	return size, vary(40*time.Millisecond, 2*time.Millisecond)
}
