package trial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"sluice/lab/sim"
	"sluice/rtsp"
	"sluice/server"
	"sluice/server/handover"
	"sluice/server/steer"
	"sluice/transport"
)

// retireTime is how long a process that was replaced serves its sessions, as by default (cmd/sluice: --replace-drain).
const retireTime = time.Hour

// drainTime is how long a relay that sends its clients to another one waits for them, as by default.
const drainTime = 10 * time.Second

// errReplaced is why a process stops to serve: another one has its port.
var errReplaced = errors.New("another process has taken over")

// process is a process of a relay. Another one may have had its port before, and still have sessions.
type process struct {
	service  *service
	relay    int
	number   steer.Number
	upstream []int // the relays that it subscribes at
	cert     *tls.Certificate
	conn     *sim.Conn
	server   *server.Server
	kernel   kernel       // nil: it has none
	rtsp     *rtsp.Server // nil: it serves no RTSP
	replaced *process     // nil: none
	heir     *process     // got ready last to take over; nil: none did
	control  *handover.Control
	began    bool        // serve was called; guarded by service.mu
	links    []*sim.Conn // of links with other processes; guarded by service.mu
	drainURI string      // where its clients are sent when it stops; "": nowhere

	serving context.Context
	retire  context.CancelCauseFunc // ends serving
	living  context.Context
	kill    context.CancelFunc // ends living: the sessions of a process that was replaced
	ended   chan struct{}
}

// isNamed reports whether a packet is of a connection of the process.
func (p *process) isNamed(packet []byte) bool {
	socket, ok := steer.Named(packet)
	return ok && socket.Process == p.number
}

// config returns the configuration of the process, without a kernel.
func (p *process) config() server.Config {
	s, host := p.service, sim.Host(p.relay)
	cfg := server.Config{
		Listen: fmt.Sprintf("%v:4443", host),
		Logger: slog.New(logged{s.options.Log.Handler(), &s.omitted, p.relay}).
			With("relay", p.relay, "process", p.number),
		NewDropPolicy: dropPolicies[s.Drop],
		ListenLink: func(string, *net.UDPAddr) (transport.UDPConn, error) {
			c, err := s.net.Listen(netip.AddrPortFrom(host, 0))
			s.mu.Lock()
			defer s.mu.Unlock()
			p.links = append(p.links, c)
			return c, err
		},
	}
	cfg.Transport.Certificate, cfg.FastPath.Mode = p.cert, server.FastPathOff
	cfg.Transport.Sockets = func(*net.UDPAddr) ([]transport.Socket, error) {
		return []transport.Socket{{Conn: p.conn, ConnectionIDs: steer.IDs{Process: p.number}}}, nil
	}
	cfg.Transport.Inspection, cfg.Upstream.Transport.Inspection = s.inspection(), s.inspection()
	if s.Limits != (Limits{}) {
		s.Limits.apply(&cfg.Relay)
	}
	if len(p.upstream) > 0 {
		var urls []string
		for _, u := range p.upstream {
			urls = append(urls, s.url(u, "moqt"))
		}
		cfg.Upstream.Routes, cfg.Upstream.Transport.Insecure = []server.UpstreamRoute{{URLs: urls}}, true
	}
	s.foreign[p.relay].route(&cfg.Upstream)
	if s.bus != nil {
		cfg.Upstream.Transport.Insecure, cfg.FastPath.Dials = true, true
	}
	return cfg
}

// serves reports whether the process has begun to serve clients.
func (p *process) serves() bool {
	p.service.mu.Lock()
	defer p.service.mu.Unlock()
	return p.began
}

// serve makes the process a node of the cluster, and serves clients.
func (p *process) serve() {
	s := p.service
	s.mu.Lock()
	p.began = true
	s.mu.Unlock()
	if s.bus != nil {
		node := s.Cluster.Nodes[p.relay-1]
		s.check(p.server.JoinCluster(server.ClusterConfig{
			Engine: s.bus.engine(p.relay), Node: node.Name, Region: node.Region,
			URL:  fmt.Sprintf("moqt://%v:4443", sim.Host(p.relay)),
			Load: func(time.Time) float64 { return node.Load },
		}))
	}
	go p.run()
}

// run serves until the process is stopped, or until all its clients have left when another one has replaced it.
func (p *process) run() {
	defer close(p.ended)
	p.service.check(p.server.Serve(p.serving))
	if errors.Is(context.Cause(p.serving), errReplaced) {
		isNamed := func(implementation string) bool { return implementation != "" }
		p.service.check(p.server.Retire(p.living, retireTime, isNamed))
	} else {
		wait := time.Second
		if p.drainURI != "" {
			wait = drainTime
		}
		p.service.check(p.server.Drain(p.drainURI, wait))
	}
}

// stop ends the process, and those that it has replaced.
func (p *process) stop() {
	if p.replaced != nil {
		p.replaced.stop()
	}
	p.service.check(p.control.Close())
	p.retire(nil)
	p.kill()
	p.service.check(p.rtsp.Close())
	<-p.ended
}

// lives reports whether the process has not ended.
func (p *process) lives() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// crash has the sockets of the process vanish.
func (p *process) crash() {
	p.service.mu.Lock()
	defer p.service.mu.Unlock()
	for _, c := range append(p.links, p.conn) {
		c.Kill()
	}
}

// Offer implements [handover.SharedPort].
func (p *process) Offer() (n steer.Number, at netip.AddrPort, none steer.Maps, err error) {
	for i := range none {
		none[i] = -1
	}
	return p.number + 1, p.conn.LocalAddr().(*net.UDPAddr).AddrPort(), none, nil
}

// Number implements [handover.SharedPort].
func (p *process) Number() steer.Number { return p.number }

// Promote implements [handover.SharedPort]: new clients come to the process that replaces this one, or to this one
// again.
func (p *process) Promote(n steer.Number) error {
	from, to := p, p.heir
	if n == p.number {
		from, to = to, from
	}
	s := p.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.relays[p.relay] != from {
		return errors.New("the relay was killed")
	}
	s.relays[p.relay] = to
	to.conn.Promote()
	return nil
}

// gauges returns the process's gauges without labels.
func (p *process) gauges() map[string]float64 {
	values := make(map[string]float64)
	for name, all := range p.metrics() {
		values[name] = all[0].GetGauge().GetValue()
	}
	return values
}

// metrics returns the process's metrics by their names.
func (p *process) metrics() map[string][]*dto.Metric {
	metrics, values := prometheus.NewRegistry(), make(map[string][]*dto.Metric)
	p.service.check(metrics.Register(p.server))
	if p.rtsp != nil {
		p.service.check(metrics.Register(p.rtsp))
	}
	families, err := metrics.Gather()
	p.service.check(err)
	for _, f := range families {
		values[f.GetName()] = f.GetMetric()
	}
	return values
}

// held returns what the process holds, and the processes that it has replaced and that have not ended.
func (p *process) held() (faults []string) {
	gauges, names := p.gauges(), transient
	if p.rtsp != nil {
		names = slices.Concat(transient, transientRTSP)
	}
	if p.service.Limits != (Limits{}) { // else there are quotas for other relays, too
		names = append(slices.Clone(names), "sluice_relay_accounts")
	}
	for _, name := range names {
		if value, known := gauges[name]; !known || value != 0 {
			faults = append(faults, fmt.Sprintf("%s is %v (known: %v)", name, value, known))
		}
	}
	if p.kernel != nil && p.kernel.Used() > 0 {
		faults = append(faults, fmt.Sprintf("%d streams of the kernel are not free", p.kernel.Used()))
	}
	for old := p.replaced; old != nil; old = old.replaced {
		if old.lives() {
			faults = append(faults, fmt.Sprintf("process %d has %d sessions", old.number,
				old.server.Relay().OpenSessions()))
		}
	}
	return faults
}

// dropped returns how often the relay has left out the rest of a group for a player by RTSP.
func (p *process) dropped() (n int) {
	for _, m := range p.metrics()["sluice_rtsp_dropped_packets_total"] {
		n += int(m.GetCounter().GetValue())
	}
	return n
}

// serveRTSP has the relay of the process serve guests.
func (p *process) serveRTSP() {
	var err error
	p.rtsp, err = rtsp.Start(rtsp.Config{
		Relay: p.server.Relay(), Dial: p.server.DialFor, DialOwn: p.server.DialOwn,
		Address: netip.AddrPortFrom(sim.Host(p.relay), rtspPort).String(), Listen: ports{p.service.net},
		Hold: held, Logger: p.config().Logger,
	})
	p.service.check(err)
}

// leakTime is how long relays and kernels may hold what nobody needs any more: connections to a relay that was killed
// end after half a minute, and the cache forgets a track later.
const leakTime = 3 * time.Minute

// transient are the gauges of a relay that are zero when all clients have left.
var transient = []string{
	"sluice_relay_tracks", "sluice_relay_upstream_subscriptions", "sluice_relay_downstream_subscriptions",
	"sluice_relay_cache_bytes", "sluice_relay_cache_groups", "sluice_relay_guests",
	"sluice_relay_open_requests",
	"sluice_media_open_streams", "sluice_media_followed_logs",
}

// transientRTSP are these gauges of a relay that serves RTSP.
var transientRTSP = []string{
	"sluice_rtsp_publishers", "sluice_rtsp_broadcasts", "sluice_rtsp_players", "sluice_rtsp_cache_bytes",
	"sluice_rtsp_memory_bytes",
}
