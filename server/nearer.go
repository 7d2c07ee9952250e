package server

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"sluice/clock"
	"sluice/internal/webclient"
	"sluice/relay"
	"sluice/rtt/networks"
	"sluice/server/cluster"
	"sluice/transport"
)

const (
	// clientInterval is how often a node looks at the distances of its clients, and monitorInterval how often it asks
	// the monitor.
	clientInterval  = 5 * time.Second
	monitorInterval = 15 * time.Second
	// clientSettles is how long a session lasts before its round-trip time counts.
	clientSettles = 5 * time.Second
	// networkAge is how long the distance of a network counts after it was measured.
	networkAge = 10 * time.Minute
	// maxSent is how many clients are sent elsewhere at a time, so that the load of the nodes that they go to is known
	// before the next ones follow.
	maxSent = 16
	// sentAgain is after how long the clients of an address may be sent elsewhere again.
	sentAgain = 10 * time.Minute
	// sentMark is the parameter in the query of a URL by which a node knows a client that another node has sent.
	sentMark = "sluice-sent=1"
	// webPage is the implementation that the relay's own page names.
	webPage = "sluice-web"
	// monitorAnswer bounds the answer of the monitor, in bytes.
	monitorAnswer = 1 << 20
)

// distances are how far the clients of a node are. Those that are much nearer to another node are sent there.
type distances struct {
	mesh     *mesh
	monitor  *webclient.Client
	measured *lru.Cache[netip.Prefix, measuredRTT] // by network
	told     atomic.Pointer[cluster.Networks]
	sent     *lru.Cache[netip.Prefix, time.Time] // by source: when its clients were sent elsewhere last

	count atomic.Uint64 // of clients that were sent

	// Used by run only.
	next time.Time // when to look again
}

func newDistances(m *mesh) (*distances, error) {
	d := &distances{mesh: m}
	d.told.Store(new(cluster.Networks))
	var err error
	if d.measured, err = lru.New[netip.Prefix, measuredRTT](meshMemory); err != nil {
		return nil, err
	}
	if d.sent, err = lru.New[netip.Prefix, time.Time](meshMemory); err != nil {
		return nil, err
	}
	if m.cfg.RTTs != "" {
		d.monitor, err = webclient.New(webclient.Config{URL: monitorURL(m.cfg.RTTs), MaxBody: monitorAnswer})
	}
	return d, err
}

// collector returns what counts the clients that were sent elsewhere.
func (d *distances) collector() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "sluice_cluster_clients_sent_total", Help: "Clients that were sent to a node that is nearer (GOAWAY).",
	}, func() float64 { return float64(d.count.Load()) })
}

// monitorURL adds the path at which monitors answer, unless there is one.
func monitorURL(text string) string {
	if _, rest, _ := strings.Cut(text, "://"); strings.Contains(rest, "/") {
		return text
	}
	return text + networks.Path
}

// networks returns how far networks are, for the other nodes.
func (d *distances) networks() cluster.Networks { return *d.told.Load() }

// ask asks the monitor how far networks are, until the context is done.
func (d *distances) ask(ctx context.Context) {
	ask := func() {
		if err := d.askOnce(ctx); err != nil && ctx.Err() == nil {
			d.mesh.log.Log(slog.LevelWarn, "monitor", "the monitor does not tell how far networks are; is sluice rtt "+
				"running with --metrics?", "url", d.monitor.Name(), "err", err)
		}
	}
	ask()
	for range clock.Every(monitorInterval, ctx.Done()) {
		ask()
	}
}

func (d *distances) askOnce(ctx context.Context) error {
	body, err := d.monitor.Get(ctx)
	if err != nil {
		return err
	}
	list, err := networks.Parse(body)
	if err != nil {
		return err
	}
	now := d.mesh.cfg.now()
	for _, n := range slices.Backward(list) { // the nearest one last, if several belong to a network
		if p := cluster.NetworkOf(n.Prefix.Addr()); p.IsValid() && n.Prefix.Bits() >= p.Bits() && n.Median > 0 {
			d.measured.Add(p, measuredRTT{n.Median, now.Add(-n.Age)})
		}
	}
	return nil
}

// look notes how far the clients are, and sends those elsewhere that are much nearer to another node.
func (d *distances) look(now time.Time) {
	if d.mesh.cfg.ClientURL == "" || now.Before(d.next) {
		return
	}
	d.next = now.Add(clientInterval)
	clients := d.mesh.server.relay.Clients()
	clients = slices.DeleteFunc(clients, func(c relay.Client) bool {
		return c.MinRTT == 0 || !c.Source.IsValid() || now.Sub(c.Began) < clientSettles
	})
	d.measure(clients, now)
	d.tell(now)
	d.send(clients, now)
}

// measure notes the shortest round-trip time to each network, unless the monitor knows the times of more hosts.
func (d *distances) measure(clients []relay.Client, now time.Time) {
	shortest := make(map[netip.Prefix]time.Duration)
	for _, c := range clients {
		p := cluster.NetworkOf(c.Source.Addr())
		if rtt := shortest[p]; rtt == 0 || c.MinRTT < rtt {
			shortest[p] = c.MinRTT
		}
	}
	for p, rtt := range shortest {
		if known, ok := d.measured.Peek(p); d.monitor == nil || !ok || now.Sub(known.at) > 2*monitorInterval {
			d.measured.Add(p, measuredRTT{rtt, now})
		}
	}
}

// tell makes the other nodes know of the nearest networks.
func (d *distances) tell(now time.Time) {
	list := make(cluster.Networks)
	for _, p := range d.measured.Keys() {
		if r, ok := d.measured.Peek(p); ok && now.Sub(r.at) < networkAge {
			list[p] = r.rtt
		}
	}
	list = list.Nearest()
	d.told.Store(&list)
}

// send sends clients elsewhere, but not those that another node has sent here, nor those from an address of which some
// were sent lately: they may have come back because they cannot reach the other node.
func (d *distances) send(clients []relay.Client, now time.Time) {
	var sent []netip.Prefix
	elsewhere := d.mesh.node.Elsewhere()
	for _, c := range clients {
		at, before := d.sent.Peek(c.Source)
		if len(sent) >= maxSent || !follows(c.Implementation) || isSent(c.Path) || before && now.Sub(at) < sentAgain {
			continue
		}
		to, ok := elsewhere.Nearer(cluster.NetworkOf(c.Source.Addr()), c.MinRTT)
		if !ok || c.Redirect(sentURI(to.URL, &c)) != nil {
			continue
		}
		sent = append(sent, c.Source)
		d.mesh.log.Log(slog.LevelInfo, "sent", "a client is sent to a node that is nearer", "client", c.Source,
			"rtt", c.MinRTT, "node", to.Node, "rtt_there", to.RTT)
	}
	for _, source := range sent { // after all of them, as they may have an address in common
		d.sent.Add(source, now)
	}
	d.count.Add(uint64(len(sent)))
}

// sentURI returns where a client should go: to the same path at another node, over the same transport, with the mark.
func sentURI(node string, c *relay.Client) string {
	_, authority, _ := strings.Cut(node, "://")
	scheme := "moqt"
	if c.Kind == transport.WebTransport {
		scheme = "https"
	}
	path, query, _ := strings.Cut(c.Path, "?")
	if path == "" {
		path = "/"
	}
	if query != "" {
		query += "&"
	}
	return scheme + "://" + authority + path + "?" + query + sentMark
}

// follows reports whether clients of an implementation go where GOAWAY says. Clients that name none are known to fail,
// and the page may connect to no other relay than its own and the relay of --drain-uri.
func follows(implementation string) bool { return implementation != "" && implementation != webPage }

// isSent reports whether another node has sent the client with this path.
func isSent(path string) bool {
	_, query, _ := strings.Cut(path, "?")
	return slices.Contains(strings.Split(query, "&"), sentMark)
}
