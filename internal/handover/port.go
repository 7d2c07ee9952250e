package handover

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/steer"
	"sluice/transport"
)

// Port is the UDP port of this process: one that it has alone at first, or one that it shares with the process that it
// replaces.
type Port struct {
	number steer.Number
	from   *Takeover // nil for the first process
	log    *slog.Logger

	mu      sync.Mutex // guards what follows
	address *net.UDPAddr
	group   *steer.Group
	reason  error // why there is no group
}

// NewPort returns a port that this process does not have from another one.
func NewPort(log *slog.Logger) *Port {
	return &Port{log: log, reason: errors.New("it does not listen yet")}
}

// Configure makes a listener use the port.
func (p *Port) Configure(cfg *transport.ListenConfig) {
	cfg.ListenUDP, cfg.ConnectionIDs = p.listenUDP, p.number
}

// listenUDP opens the socket. The first process needs no privilege: without one it cannot be replaced.
func (p *Port) listenUDP(network string, local *net.UDPAddr) (*net.UDPConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.from != nil {
		return p.joinLocked(local)
	}
	c, err := net.ListenUDP(network, local)
	if err != nil {
		return nil, err
	}
	p.address = c.LocalAddr().(*net.UDPAddr)
	if p.group, p.reason = steer.Create(c); p.reason != nil {
		p.log.Info("no process can replace this one while it runs", "reason", p.reason)
	}
	return c, nil
}

// joinLocked opens a socket beside that of the running process; mu is held.
func (p *Port) joinLocked(local *net.UDPAddr) (c *net.UDPConn, err error) {
	p.address = net.UDPAddrFromAddrPort(p.from.offer.Address)
	if !sameAddress(p.address, local) {
		return nil, fmt.Errorf("the running relay listens on %s: listen on that, or stop it first", p.address)
	}
	p.group, c, err = steer.Join(p.address, p.number, p.from.takeMaps())
	p.reason = err
	return c, err
}

func sameAddress(a, b *net.UDPAddr) bool {
	isAny := func(ip net.IP) bool { return ip == nil || ip.IsUnspecified() }
	return a.Port == b.Port && (a.IP.Equal(b.IP) || isAny(a.IP) && isAny(b.IP))
}

// offer returns the number and the maps for another process.
func (p *Port) offer() (o offer, maps steer.Maps, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group == nil {
		return o, maps, fmt.Errorf("the running relay cannot share its port: %w", p.reason)
	}
	if o.Number, err = p.group.Next(); err != nil {
		return o, maps, err
	}
	o.Address = p.address.AddrPort()
	return o, p.group.Maps(), nil
}

// promote makes the process with a number the newest.
func (p *Port) promote(n steer.Number) error {
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

// Close closes what the port has besides its socket, which belongs to the listener.
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
		"Datagrams to the port, of all processes that share it, by why they went to one: the connection ID named it, "+
			"it is the newest, the named one is gone, or any had to do.",
		[]string{"reason"}, nil)
	draining = prometheus.NewDesc("sluice_draining_sessions",
		"Sessions that are left at processes which this one, or one before it, has replaced.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (p *Port) Describe(ch chan<- *prometheus.Desc) {
	ch <- steered
	ch <- draining
}

// Collect implements [prometheus.Collector].
func (p *Port) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group == nil {
		return
	}
	if counts, err := p.group.Counts(); err != nil {
		ch <- prometheus.NewInvalidMetric(steered, err)
	} else {
		for reason, n := range counts {
			ch <- prometheus.MustNewConstMetric(steered, prometheus.CounterValue, float64(n), reason)
		}
	}
	processes, err := p.group.Draining()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(draining, err)
		return
	}
	sessions := 0
	for _, o := range processes {
		sessions += o.Sessions
	}
	ch <- prometheus.MustNewConstMetric(draining, prometheus.GaugeValue, float64(sessions))
}
