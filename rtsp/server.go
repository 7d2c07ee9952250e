package rtsp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/auth"
	"github.com/prometheus/client_golang/prometheus"

	"sluice/claim"
	"sluice/fastpath"
	"sluice/internal/bounds"
	"sluice/internal/logs"
	"sluice/relay"
	"sluice/transport"
)

// Config is the configuration of a [Server]. Relay and one of the addresses are required.
type Config struct {
	// Relay gives permissions and counts the clients' traffic.
	Relay *relay.Relay
	// Dial opens a session with the relay for a client, as server.Server.DialFor does. Default: RTSP broadcasts are not
	// MoQ broadcasts.
	Dial func(ctx context.Context, client net.Addr) (transport.Conn, error)
	// DialOwn opens a session of the relay with itself, as server.Server.DialOwn does. Default: MoQ broadcasts are not
	// RTSP broadcasts.
	DialOwn func(context.Context, *relay.Audience) (transport.Conn, error)
	// FastPath sends packets by UDP in the kernel. Its port for RTP is RTPAddress's. Default: none.
	FastPath *fastpath.FastPath

	// Address and TLSAddress are the TCP addresses for rtsp:// and rtsps:// URLs. Default: none.
	Address, TLSAddress string
	// Certificate returns the certificate of TLSAddress.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// RTPAddress and SRTPAddress are the UDP addresses for RTP of clients of Address, and for SRTP of clients of
	// TLSAddress. A port is even and not 0; RTCP has the next one. Default: none, clients use their TCP connections.
	RTPAddress, SRTPAddress string
	// Listen opens the ports. Default: the system's.
	Listen Listener

	// MaxPublishers is how many clients may publish. An IPv4 address or IPv6 /64 may have as many as are free, so one
	// alone gets half. Default: 1,024.
	MaxPublishers int
	// MaxBroadcasts is how many MoQ broadcasts may be played by RTSP. Default: 1,024.
	MaxBroadcasts int
	// Hold is how long players of a MoQ broadcast wait for a missing object when later ones have come. Default: 500 ms.
	Hold time.Duration
	// Memory is how many bytes the MoQ broadcasts of publishers, and those that are played, may take, beside the
	// packets that are kept and the cache of the relay. A source address may have as much as is free. Default:
	// DefaultMemory.
	Memory int64

	// Rule is an operator's, which decides what players get (fastpath.LoadRule). Default: the built-in one.
	Rule claim.Rule
	// KeepAll leaves out nothing for players that report losses.
	KeepAll bool

	// IdleTimeout is how long a session lasts without a sign of life: a request, or a packet by UDP; and a connection
	// without a request. A publisher's session ends sooner, when no packet came for ReadTimeout. Defaults:
	// DefaultIdleTimeout and 10 s.
	IdleTimeout, ReadTimeout time.Duration

	Logger *slog.Logger // default: slog.Default()
}

// Listener opens ports, as [net.ListenConfig] does.
type Listener interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
}

// DefaultMemory and MinMemory are the default and the least value of Config.Memory. One broadcast takes some megabytes.
const (
	DefaultMemory = 512 << 20
	MinMemory     = 16 << 20
)

const (
	maxConnections          = 4096 // by TCP
	maxConnectionsPerSource = 256
	// cacheSize is how many bytes of packets are kept for players that join late, or ask for packets again, in all. A
	// publisher has at most 9 MiB of them.
	cacheSize = 256 << 20
)

// DefaultIdleTimeout is the default of RTSP (RFC 2326 §12.37).
const DefaultIdleTimeout = time.Minute

func (c Config) withDefaults() Config {
	if c.Listen == nil {
		c.Listen = new(net.ListenConfig)
	}
	c.MaxPublishers = cmp.Or(c.MaxPublishers, 1024)
	c.MaxBroadcasts = cmp.Or(c.MaxBroadcasts, 1024)
	c.Hold = cmp.Or(c.Hold, 500*time.Millisecond)
	c.Memory = cmp.Or(c.Memory, DefaultMemory)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func (c *Config) validate() error {
	switch {
	case c.Relay == nil:
		return errors.New("no relay to serve")
	case c.Address == "" && c.TLSAddress == "":
		return errors.New("no address to listen on")
	case c.TLSAddress != "" && c.Certificate == nil:
		return errors.New("no certificate for RTSPS")
	}
	return bounds.AtLeast("Memory", c.Memory, MinMemory)
}

// Server serves RTSP clients. It is a prometheus.Collector.
type Server struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	cached  *pool // for packets that are kept for players
	pool    *pool // for the bridge

	plain, secure *endpoint // nil: none

	ctx     context.Context // done when the sessions of publishers with the relay have to end
	cancel  context.CancelFunc
	playing context.Context // done when downlinks have to
	stop    context.CancelFunc
	links   sync.WaitGroup // uplinks and downlinks

	lifts liftTimes

	lines struct{ came, left, noCodec logs.Line } // about publishers

	route func(bound netip.Addr, to netip.AddrPort) (from netip.Addr, mtu int, err error) // fastpath.Route

	mu        sync.Mutex
	streams   map[string]*stream // of publishers, by the keys of their namespaces
	downlinks map[downlinkKey]*downlink
}

// Start opens the ports and serves clients, until Close.
func Start(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, route: fastpath.Route, lifts: defaultLiftTimes,
		streams: make(map[string]*stream), downlinks: make(map[downlinkKey]*downlink),
	}
	s.cached = newPool(cacheSize, func() {})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.playing, s.stop = context.WithCancel(s.ctx)
	s.metrics = newMetrics()
	s.pool = newPool(cfg.Memory, s.metrics.memory.Inc)
	var err error
	if cfg.Address != "" {
		if s.plain, err = s.open(cfg.Address, cfg.RTPAddress, nil); err != nil {
			return nil, err
		}
	}
	if cfg.TLSAddress != "" {
		conf := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cfg.Certificate}
		if s.secure, err = s.open(cfg.TLSAddress, cfg.SRTPAddress, conf); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// open opens a TCP port and, if there is an address for RTP, the UDP ports.
func (s *Server) open(address, rtp string, conf *tls.Config) (*endpoint, error) {
	e := &endpoint{Server: s, tls: conf, ports: newPorts()}
	e.lib = &gortsplib.Server{
		Handler: e, RTSPAddress: address,
		AuthMethods: []auth.VerifyMethod{auth.VerifyMethodBasic}, // a digest does not tell the token
		IdleTimeout: s.cfg.IdleTimeout, ReadTimeout: s.cfg.ReadTimeout, WriteQueueSize: writeQueue,
		Listen: e.listen, ListenPacket: e.listenPacket, DisableRTCPSenderReports: true, // see report
	}
	if rtp != "" {
		var err error
		if e.lib.UDPRTPAddress, e.lib.UDPRTCPAddress, err = udpAddresses(rtp); err != nil {
			return nil, err
		}
		e.lib.TLSConfig, e.lib.TLSListen = conf, e.listenTLS // it serves SRTP, and no RTP by UDP then
	}
	if err := e.lib.Start(); err != nil {
		return nil, fmt.Errorf("RTSP: %w", err)
	}
	return e, nil
}

// udpAddresses returns the addresses for RTP and for RTCP.
func udpAddresses(rtp string) (string, string, error) {
	host, text, err := net.SplitHostPort(rtp)
	if err != nil {
		return "", "", err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port%2 != 0 || port == 0 {
		return "", "", fmt.Errorf("RTP: %q: must have an even port from 2 to 65534: RTCP has the next one", rtp)
	}
	return rtp, net.JoinHostPort(host, strconv.FormatUint(port+1, 10)), nil
}

// udpReadBuffer is for bursts of many publishers. The kernel may allow less.
const udpReadBuffer = 4 << 20

// Addr and TLSAddr return the TCP addresses, or nil.
func (s *Server) Addr() net.Addr    { return s.plain.addr() }
func (s *Server) TLSAddr() net.Addr { return s.secure.addr() }

// closeWait is how long Close waits for MoQ subscribers to get all published objects.
const closeWait = 3 * time.Second

// Close ends all sessions and closes the ports. On a nil Server it does nothing.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	s.stop()
	for _, e := range []*endpoint{s.plain, s.secure} {
		if e != nil {
			e.lib.Close()
		}
	}
	time.AfterFunc(closeWait, s.cancel)
	s.links.Wait()
	s.cancel()
	return nil
}

// Describe implements [prometheus.Collector].
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s.metrics.all {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{
		publishersDesc, uplinksDesc, broadcastsDesc, playersDesc, limitedDesc, cacheDesc, memoryDesc, connectionDesc,
	} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s.metrics.all {
		c.Collect(ch)
	}
	n := s.count()
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	gauge(publishersDesc, float64(n.publishers))
	gauge(uplinksDesc, float64(n.uplinks))
	gauge(broadcastsDesc, float64(n.broadcasts))
	gauge(playersDesc, float64(n.players))
	gauge(limitedDesc, float64(n.limited))
	gauge(cacheDesc, float64(s.cached.inUse()))
	gauge(memoryDesc, float64(s.pool.inUse()))
	var total, address uint64
	for _, e := range []*endpoint{s.plain, s.secure} {
		if e != nil {
			t, a := e.listener.Refused()
			total, address = total+t, address+a
		}
	}
	for limit, n := range map[string]uint64{"total": total, "address": address} {
		ch <- prometheus.MustNewConstMetric(connectionDesc, prometheus.CounterValue, float64(n), limit)
	}
}

func (s *Server) count() (n counts) {
	s.mu.Lock()
	n.publishers, n.broadcasts = len(s.streams), len(s.downlinks)
	s.mu.Unlock()
	for _, st := range s.all() {
		st.mu.Lock()
		n.players += len(st.players)
		for p := range st.players {
			if p.isLimited() {
				n.limited++
			}
		}
		st.mu.Unlock()
		if st.publisher != nil && st.publisher.lift.works() {
			n.uplinks++
		}
	}
	return n
}

// all returns the streams, of publishers and of MoQ broadcasts.
func (s *Server) all() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Collect(maps.Values(s.streams))
	for _, d := range s.downlinks {
		select {
		case <-d.ready:
			if d.stream != nil {
				list = append(list, d.stream)
			}
		default:
		}
	}
	return list
}

// add makes a publisher's stream known. A publisher that comes back takes the place of its earlier session, whose
// connection may be lost.
func (s *Server) add(p *publisher) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.streams[p.namespace.String()]
	if before != nil {
		if !before.publisher.yieldsTo(p) {
			return errPublished
		}
		before.publisher.session.Close()
	} else if s.publishersLocked(p.source()) >= s.cfg.MaxPublishers-len(s.streams) {
		return errTooManyPublishers
	}
	s.streams[p.namespace.String()] = p.stream
	return nil
}

// publishersLocked returns how many publishers an address has.
func (s *Server) publishersLocked(source netip.Prefix) (n int) {
	for _, st := range s.streams {
		if st.publisher.source() == source {
			n++
		}
	}
	return n
}

// lookup returns the stream that a player asks for: an RTSP publisher's, which has no renditions, or else a MoQ
// broadcast's, which the caller has to leave.
func (s *Server) lookup(q *request, source netip.Prefix, guest *relay.Guest) (*stream, error) {
	s.mu.Lock()
	published := s.streams[q.namespace.String()]
	s.mu.Unlock()
	if published != nil {
		return published, nil
	}
	d, err := s.want(q.namespace, q.choice, source, guest)
	if err != nil {
		return nil, err
	}
	return d.stream, nil
}

// roomLocked returns an error if there is no room for another downlink, which a source wants; Server.mu is held.
func (s *Server) roomLocked(c choice, source netip.Prefix) error {
	if len(s.downlinks) >= s.cfg.MaxBroadcasts {
		return errTooManyBroadcasts
	}
	if c == (choice{}) {
		return nil
	}
	begun := 0
	for key, d := range s.downlinks {
		if key.choice != (choice{}) && d.source == source {
			begun++
		}
	}
	if begun >= maxChoices {
		return errTooManyChoices
	}
	return nil
}
