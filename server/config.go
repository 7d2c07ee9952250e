package server

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"sluice/congestion"
	"sluice/fastpath"
	"sluice/internal/bounds"
	"sluice/media"
	"sluice/relay"
	"sluice/transport"
)

// Config is the configuration of a Server. Transport needs a certificate; the zero value of all else is the default.
type Config struct {
	// Listen is the UDP address to listen on. Default: ":4443".
	Listen string
	// Transport configures connections. With Mutual, only relays that have proved who they are may ask this one as the
	// origin (relay.OriginPath). The server sets Protocols, NewHooks, Handler, Coalesce, MaxConnectionsPerSource and
	// Exempt.
	Transport transport.ListenConfig
	// NewHandler makes the handler of HTTP/3 requests that do not open a session: Transport.Handler. It is called in
	// Listen, when Relay and Addr of the Server may be used. Default: they are answered with 404.
	NewHandler func(*Server) (http.Handler, error)
	// Relay configures what sessions may do, and the cache. The server sets FastPath.
	Relay relay.Config
	// FastPath configures forwarding in the kernel.
	FastPath FastPathConfig
	// Upstream says at which other relays to subscribe to what no publisher of this one has. Default: none.
	Upstream UpstreamConfig
	// ListenLink opens the UDP sockets of links with other processes of the relay, and of sessions of the relay with
	// itself. Default: [transport.ListenUDP].
	ListenLink func(network string, local *net.UDPAddr) (transport.UDPConn, error)

	// AdaptRuntime lets the server adapt the process to the load: while there is little to do, GOMAXPROCS is 1, and
	// memory has been given back to the system. On Linux only.
	AdaptRuntime bool

	// NewController makes the congestion controller of a connection, for packets of at most mtu bytes. Default:
	// [congestion.NewCubic].
	NewController func(mtu int) congestion.Controller
	// NewDropPolicy makes the drop policy of a connection. It must return a new one each time. Default: nothing is
	// dropped.
	NewDropPolicy func() media.DropPolicy

	// Rule is an operator's, by which both senders decide what may go (fastpath.LoadRule). It must be open until Serve
	// has returned. Default: the built-in one.
	Rule *fastpath.Rule

	// AckTimeout is how long a byte of a stream may be sent and not acknowledged before the stream is reset, see
	// [media.SenderConfig]. Default: media.DefaultAckTimeout, at least 1 s.
	AckTimeout time.Duration

	// MaxBehind and MaxBehindBytes are how far a subscription may be behind its publisher before it ends with
	// TOO_FAR_BEHIND, see [media.SenderConfig]. Default: the media sender's.
	MaxBehind      time.Duration
	MaxBehindBytes int64

	// Draining returns the processes that this one has replaced at its port, and that still have sessions, for Status.
	// Default: there are none.
	Draining func() ([]DrainingProcess, error)

	// Arrivals counts the datagrams of each socket, for Status. Default: they are not counted.
	Arrivals func() ([]SocketArrivals, error)

	// Logger is used by all parts without a logger of their own. Default: slog.Default().
	Logger *slog.Logger
}

// MinAckTimeout is the smallest Config.AckTimeout: a few round trips of a slow path, so that losses can be repaired.
const MinAckTimeout = time.Second

// FastPathConfig is the configuration of forwarding in the kernel. The zero value is the default.
type FastPathConfig struct {
	// Mode is FastPathAuto by default.
	Mode FastPathMode
	// Open makes the fast path for a socket with that address, unless Mode is FastPathOff. Default: the kernel's, with
	// the settings below.
	Open func(addr *net.UDPAddr, log *slog.Logger) (*fastpath.FastPath, error)
	// Devices are the names of the network devices to attach to. Default: the devices with the listening address; if
	// the server dials other relays, all that have one, because routes choose the device that leads there.
	Devices []string
	// Dials says that the server dials other relays, as JoinCluster does. It does if it has Upstream.Routes.
	Dials bool
	// RTPPort is the UDP port for RTP of RTSP clients, see [Server.FastPath]. Default: none.
	RTPPort uint16
	// MaxCopies is how many copies a packet may cause. Default: fastpath.DefaultMaxCopies.
	MaxCopies int
	// Workers is how many goroutines make copies of RTP packets, see [fastpath.Settings]. Default: none.
	Workers int
	// MaxConnections, MaxTracks, MaxSubgroups and MaxObjects bound the memory of the kernel, see [fastpath.Settings].
	// The default of MaxTracks is Relay.MaxTracks.
	MaxConnections, MaxTracks, MaxSubgroups, MaxObjects int
}

// FastPathMode decides whether the kernel forwards media. The zero value is FastPathAuto.
type FastPathMode string

const (
	FastPathAuto FastPathMode = "auto" // where that is possible; else the reason is logged
	FastPathOn   FastPathMode = "on"   // Listen fails where it is not possible
	FastPathOff  FastPathMode = "off"
)

func (c Config) withDefaults() Config {
	c.Listen = cmp.Or(c.Listen, ":4443")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Transport.Logger = cmp.Or(c.Transport.Logger, c.Logger)
	c.Relay.Logger = cmp.Or(c.Relay.Logger, c.Logger)
	c.AckTimeout = cmp.Or(c.AckTimeout, media.DefaultAckTimeout)
	if c.ListenLink == nil {
		c.ListenLink = transport.ListenUDP
	}
	c.FastPath.Mode = cmp.Or(c.FastPath.Mode, FastPathAuto)
	c.FastPath.MaxCopies = cmp.Or(c.FastPath.MaxCopies, fastpath.DefaultMaxCopies)
	c.FastPath.MaxConnections = cmp.Or(c.FastPath.MaxConnections, fastpath.DefaultMaxConnections)
	tracks := min(cmp.Or(c.Relay.MaxTracks, fastpath.DefaultMaxTracks), fastpath.MaxTracks)
	c.FastPath.MaxTracks = cmp.Or(c.FastPath.MaxTracks, tracks)
	c.FastPath.MaxSubgroups = cmp.Or(c.FastPath.MaxSubgroups, fastpath.DefaultMaxSubgroups)
	c.FastPath.MaxObjects = cmp.Or(c.FastPath.MaxObjects, fastpath.DefaultMaxObjects)
	return c
}

func (c *Config) validate() error {
	switch {
	case c.Transport.Protocols != nil || c.Transport.NewHooks != nil || c.Transport.Coalesce != nil:
		return errors.New("Transport.Protocols, NewHooks and Coalesce must not be set: the server does")
	case c.Transport.Handler != nil:
		return errors.New("Transport.Handler must not be set: set NewHandler")
	case c.Transport.MaxConnectionsPerSource != 0 || c.Transport.Exempt != nil:
		return errors.New("Transport.MaxConnectionsPerSource and Exempt must not be set: set PerAddress.Sessions and " +
			"Exempt of Relay")
	case c.Relay.FastPath != nil:
		return errors.New("Relay.FastPath must not be set: the server does; see FastPath")
	}
	if err := c.Upstream.validate(); err != nil {
		return err
	}
	return errors.Join(
		bounds.AtLeast("AckTimeout", c.AckTimeout, MinAckTimeout),
		bounds.AtLeast("MaxBehind", c.MaxBehind, 0),
		bounds.AtLeast("MaxBehindBytes", c.MaxBehindBytes, 0),
		bounds.OneOf("FastPath.Mode", string(c.FastPath.Mode),
			string(FastPathAuto), string(FastPathOn), string(FastPathOff)),
		bounds.Check("FastPath.Workers", c.FastPath.Workers, 0, fastpath.MaxWorkers),
		bounds.Check("FastPath.MaxConnections", c.FastPath.MaxConnections, 1, fastpath.MaxConnections),
		bounds.Check("FastPath.MaxTracks", c.FastPath.MaxTracks, 1, fastpath.MaxTracks),
		bounds.Check("FastPath.MaxSubgroups", c.FastPath.MaxSubgroups, fastpath.MinSubgroups, fastpath.MaxSubgroups),
		bounds.Check("FastPath.MaxObjects", c.FastPath.MaxObjects, fastpath.MinObjects, fastpath.MaxObjects),
		bounds.Check("FastPath.MaxCopies", c.FastPath.MaxCopies, 1, fastpath.MaxSubscriptions))
}
