package traffic

import (
	"container/heap"
	"iter"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"sluice/internal/bounds"
	"sluice/rtt/pcap"
)

// Config describes the traffic to make.
type Config struct {
	Seed     uint64
	Begin    time.Time     // the time of day follows from it
	Length   time.Duration // of the traffic
	Day      time.Duration // 24 hours, or less to have days pass faster
	Flows    float64       // that begin in a second, on average over a day
	Prefixes int           // of customers, /24 and /48 in turn; at most MaxPrefixes
	TCP      bool          // make only TCP flows, so that each prefix has RTTs of TCP
}

// MaxPrefixes is the number of /24 in 10.0.0.0/8, and of /48 in 2001:db8::/32.
const MaxPrefixes = 2 << 16

// Validate checks a configuration. Errors name the flags of sluice-lab traffic.
func (c Config) Validate() error {
	for _, err := range []error{
		bounds.Check("--length", c.Length, time.Millisecond, 365*24*time.Hour),
		bounds.Check("--day", c.Day, time.Second, 24*time.Hour),
		bounds.Check("--flows", c.Flows, 0.001, 1e6),
		bounds.Check("--prefixes", c.Prefixes, 1, MaxPrefixes),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// Packets yields the packets of a valid configuration. Frames have no payload beyond the bytes that a monitor looks at:
// their Length is their length on the wire.
func Packets(cfg Config) iter.Seq[pcap.Packet] {
	return func(yield func(pcap.Packet) bool) {
		newGenerator(cfg).run(yield)
	}
}

// generator makes traffic. Times are since the begin.
type generator struct {
	cfg     Config
	rng     *rand.Rand
	zipf    *rand.Zipf // chooses prefixes
	servers *rand.Zipf
	pending queue
	events  uint64
}

// conversation is the packets between two hosts.
type conversation interface {
	// step makes the packets of the next round, which begins now, and returns when to call it again; 0 if it is over.
	step(g *generator, now time.Duration) time.Duration
}

// Popular prefixes and servers have far more traffic than others.
const (
	zipfExponent = 1.05
	zipfOffset   = 50
	serverCount  = 4096
)

func newGenerator(cfg Config) *generator {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0))
	return &generator{
		cfg: cfg, rng: rng,
		zipf:    rand.NewZipf(rng, zipfExponent, zipfOffset, uint64(cfg.Prefixes-1)),
		servers: rand.NewZipf(rng, zipfExponent, 1, serverCount-1),
	}
}

func (g *generator) run(yield func(pcap.Packet) bool) {
	g.later(0, event{talk: arrivals{}})
	for len(g.pending) > 0 {
		e := heap.Pop(&g.pending).(event)
		if e.at >= g.cfg.Length {
			return
		}
		if e.talk != nil {
			if next := e.talk.step(g, e.at); next > 0 {
				g.later(next, event{talk: e.talk})
			}
			continue
		}
		if !yield(pcap.Packet{At: g.cfg.Begin.Add(e.at), Frame: e.frame, Length: e.length}) {
			return
		}
	}
}

// send makes a frame pass the monitor at a time. length is its length on the wire.
func (g *generator) send(at time.Duration, frame []byte, length int) {
	g.later(at, event{frame: frame, length: length})
}

func (g *generator) later(at time.Duration, e event) {
	e.at, e.number = at, g.events
	g.events++
	heap.Push(&g.pending, e)
}

// Between the evening and the early morning the load falls to less than a fifth.
const (
	swing     = 0.7
	peakOfDay = 20.0 / 24
)

// load returns how busy a time of day is: 1 on average.
func (g *generator) load(at time.Duration) float64 {
	midnight := g.cfg.Begin.Truncate(24 * time.Hour)
	day := float64(g.cfg.Begin.Sub(midnight))/float64(24*time.Hour) + float64(at)/float64(g.cfg.Day)
	return 1 + swing*math.Cos(2*math.Pi*(day-peakOfDay))
}

// arrivals begins conversations: a Poisson process whose rate follows the load.
type arrivals struct{}

func (arrivals) step(g *generator, now time.Duration) time.Duration {
	if g.rng.Float64()*(1+swing) < g.load(now) {
		if first := g.converse(now); first != nil {
			g.later(now, event{talk: first})
		}
	}
	return now + 1 + time.Duration(g.rng.ExpFloat64()/(g.cfg.Flows*(1+swing))*float64(time.Second))
}

// converse chooses a conversation.
func (g *generator) converse(now time.Duration) conversation {
	p := g.newPath(now)
	if g.cfg.TCP {
		return newTCP(g, p)
	}
	switch kind := g.rng.Float64(); {
	case kind < 0.55:
		return newTCP(g, p)
	case kind < 0.75:
		return newQUIC(g, p)
	case kind < 0.97:
		return dns{p}
	default:
		return &ping{path: p, left: 1 + g.rng.IntN(10), fromInternet: g.rng.IntN(2) == 0}
	}
}

// The sizes of downloads have a Pareto distribution. Its mean is infinite in theory, and here it is bounded.
const (
	paretoShape  = 1.2
	leastBytes   = 4 << 10
	greatestSize = 64 << 20
)

// size returns the bytes of a download.
func (g *generator) size() int {
	return int(min(leastBytes*math.Pow(1-g.rng.Float64(), -1/paretoShape), greatestSize))
}

// newPath chooses a customer and a server of one address family.
func (g *generator) newPath(now time.Duration) path {
	prefix, server := g.zipf.Uint64(), g.servers.Uint64()
	p := path{
		near: distance(prefix, 12*time.Millisecond, 0.5),
		far:  distance(server+MaxPrefixes, 20*time.Millisecond, 1),
	}
	// In the evening, more customers share their link.
	p.near += time.Duration(float64(p.near) * 0.3 * max(0, g.load(now)-1))
	host, port := 1+g.rng.IntN(254), uint16(32768+g.rng.IntN(28000))
	p.customer = netip.AddrPortFrom(customerAddress(prefix, host), port)
	p.server = netip.AddrPortFrom(serverAddress(server, p.customer.Addr().Is4()), 443)
	return p
}

// jitter returns an RTT with the delay of queues.
func (g *generator) jitter(rtt time.Duration) time.Duration {
	return rtt + time.Duration(g.rng.ExpFloat64()*0.03*float64(rtt))
}

// hidden returns the other bits of a first byte, as header protection makes them.
func (g *generator) hidden() byte { return byte(g.rng.Uint32()) & 0x1f }
