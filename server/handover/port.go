package handover

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/server/steer"
	"sluice/transport"
)

// Port is the UDP port of this process: alone at first, or shared with the process that it replaces.
type Port struct {
	cfg    PortConfig
	number steer.Number
	from   *Takeover // nil for the first process

	mu      sync.Mutex // guards what follows
	address *net.UDPAddr
	group   *steer.Group
	reason  error // why there is no group
}

// PortConfig is the configuration of a Port. Logger is required.
type PortConfig struct {
	// Sockets is how many sockets the process has, at most MaxSockets. Default: one for each processor, and one where
	// the system does not let several share a port.
	Sockets int
	// Shared is set if other processes may replace this one.
	Shared bool
	Logger *slog.Logger
}

// MaxSockets is the most that a process may have.
const MaxSockets = steer.MaxSockets

// NewPort returns a port that this process does not take over from another process.
func NewPort(cfg PortConfig) *Port {
	return &Port{cfg: cfg, reason: errors.New("it does not listen yet")}
}

// Configure makes a listener use the port.
func (p *Port) Configure(cfg *transport.ListenConfig) { cfg.Sockets = p.open }

// open opens the sockets.
func (p *Port) open(local *net.UDPAddr) (all []transport.Socket, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sockets []*net.UDPConn
	if p.from != nil {
		sockets, err = p.joinLocked(local)
	} else {
		sockets, err = p.createLocked(local)
	}
	for i, c := range sockets {
		s := transport.Socket{Conn: c, ConnectionIDs: steer.IDs{Process: p.number, Socket: i}}
		if g := p.group; len(sockets) > 1 {
			s.Woken = func() { g.Woken(i) }
		}
		all = append(all, s)
	}
	return all, err
}

// sockets returns how many sockets there are to be.
func (c *PortConfig) sockets() int {
	return cmp.Or(c.Sockets, min(runtime.GOMAXPROCS(0), MaxSockets))
}

// createLocked opens sockets at an address that this process has alone. One socket needs no privilege: without one the
// process cannot be replaced.
func (p *Port) createLocked(local *net.UDPAddr) ([]*net.UDPConn, error) {
	c, err := net.ListenUDP("udp", local)
	if err != nil {
		return nil, err
	}
	p.address = c.LocalAddr().(*net.UDPAddr)
	sockets := p.cfg.sockets()
	if !p.cfg.Shared && sockets == 1 {
		return []*net.UDPConn{c}, nil
	}
	if p.group, p.reason = steer.Create(c, sockets); p.reason == nil {
		return p.group.Sockets(), nil
	}
	if p.cfg.Sockets > 1 {
		return nil, errors.Join(fmt.Errorf("several sockets: %w: use one (--sockets 1)", p.reason), c.Close())
	}
	if sockets > 1 {
		p.cfg.Logger.Info("one socket has to do", "reason", p.reason)
	}
	if p.cfg.Shared {
		p.cfg.Logger.Info("no process can replace this one while it runs", "reason", p.reason)
	}
	return []*net.UDPConn{c}, nil
}

// joinLocked opens sockets beside the running process's.
func (p *Port) joinLocked(local *net.UDPAddr) (_ []*net.UDPConn, err error) {
	p.address = net.UDPAddrFromAddrPort(p.from.offer.Address)
	if !sameAddress(p.address, local) {
		return nil, fmt.Errorf("the running relay listens on %s: listen on that, or stop it first", p.address)
	}
	if p.group, p.reason = steer.Join(p.address, p.number, p.cfg.sockets(), p.from.takeMaps()); p.reason != nil {
		return nil, p.reason
	}
	return p.group.Sockets(), nil
}

func sameAddress(a, b *net.UDPAddr) bool {
	isAny := func(ip net.IP) bool { return ip == nil || ip.IsUnspecified() }
	return a.Port == b.Port && (a.IP.Equal(b.IP) || isAny(a.IP) && isAny(b.IP))
}

// Offer implements SharedPort.
func (p *Port) Offer() (n steer.Number, at netip.AddrPort, maps steer.Maps, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group == nil {
		return n, at, maps, fmt.Errorf("the running relay cannot share its port: %w", p.reason)
	}
	n, err = p.group.Next()
	return n, p.address.AddrPort(), p.group.Maps(), err
}

// Number implements SharedPort.
func (p *Port) Number() steer.Number { return p.number }

// Promote implements SharedPort.
func (p *Port) Promote(n steer.Number) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.group.Promote(n)
}

// Tell tells the newest process how many sessions this one still has while it drains.
func (p *Port) Tell(sessions int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group == nil {
		return p.reason
	}
	return p.group.Tell(sessions)
}

// Draining returns the processes that this one, or one before it, has replaced, and that still have sessions.
func (p *Port) Draining() ([]steer.Process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group == nil {
		return nil, nil
	}
	return p.group.Draining()
}

// Arrivals counts the datagrams of each socket, by the CPU that they came on. It returns none if there is one socket:
// the CPUs of its reader are not known.
func (p *Port) Arrivals() ([]steer.Arrivals, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.arrivalsLocked()
}

func (p *Port) arrivalsLocked() ([]steer.Arrivals, error) {
	if p.group == nil || len(p.group.Sockets()) == 1 {
		return nil, nil
	}
	return p.group.Arrivals()
}

// Close closes everything but the sockets, which belong to the listener.
func (p *Port) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group == nil {
		return nil
	}
	g := p.group
	p.group, p.reason = nil, errors.New("it has ended")
	return g.Close()
}

var (
	steered = prometheus.NewDesc("sluice_steering_total",
		"Datagrams to the port, of all processes that share it, by why they went to a socket: the connection ID named "+
			"it, its process is the newest, the named one is gone, or any had to do.",
		[]string{"reason"}, nil)
	arrivals = prometheus.NewDesc("sluice_socket_datagrams_total",
		"Datagrams to each of several sockets, of all processes that share the port, by the CPU on which they came: "+
			"the same on which the socket's reader had woken last, or another.",
		[]string{"socket", "cpu"}, nil)
	draining = prometheus.NewDesc("sluice_draining_sessions",
		"Sessions that are left at processes which this one, or one before it, has replaced.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (p *Port) Describe(ch chan<- *prometheus.Desc) {
	ch <- steered
	ch <- arrivals
	ch <- draining
}

// Collect implements [prometheus.Collector].
func (p *Port) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group == nil {
		return
	}
	for desc, err := range map[*prometheus.Desc]error{
		steered:  p.collectSteeredLocked(ch),
		arrivals: p.collectArrivalsLocked(ch),
		draining: p.collectDrainingLocked(ch),
	} {
		if err != nil {
			ch <- prometheus.NewInvalidMetric(desc, err)
		}
	}
}

func (p *Port) collectSteeredLocked(ch chan<- prometheus.Metric) error {
	counts, err := p.group.Counts()
	for reason, n := range counts {
		ch <- prometheus.MustNewConstMetric(steered, prometheus.CounterValue, float64(n), reason)
	}
	return err
}

func (p *Port) collectArrivalsLocked(ch chan<- prometheus.Metric) error {
	sockets, err := p.arrivalsLocked()
	for i, a := range sockets {
		for cpu, n := range map[string]uint64{"same": a.SameCPU, "other": a.OtherCPU} {
			ch <- prometheus.MustNewConstMetric(arrivals, prometheus.CounterValue, float64(n), strconv.Itoa(i), cpu)
		}
	}
	return err
}

func (p *Port) collectDrainingLocked(ch chan<- prometheus.Metric) error {
	processes, err := p.group.Draining()
	if err != nil {
		return err
	}
	sessions := 0
	for _, o := range processes {
		sessions += o.Sessions
	}
	ch <- prometheus.MustNewConstMetric(draining, prometheus.GaugeValue, float64(sessions))
	return nil
}
