package session

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/moqt"
)

// Role is which end of the transport session an endpoint is.
type Role uint8

const (
	// Client opened the transport session.
	Client Role = iota
	// Server accepted it.
	Server
)

func (r Role) String() string {
	if r == Server {
		return "server"
	}
	return "client"
}

// Config is the configuration of a [Session]. The zero value is that of a client which refuses every request.
type Config struct {
	Role Role
	// Handler takes the requests of the peer. Default: [Unsupported].
	Handler Handler

	// Authority and Path are the options of SETUP with which a client tells a server on raw QUIC what it connects to
	// (draft §10.3.1.1, §10.3.1.2). Path includes "?" and the query if the URL has one. Servers leave them empty, and
	// on WebTransport they are not sent.
	Authority, Path string
	// Tokens authorize the session.
	Tokens []moqt.Token
	// Implementation is what MOQT_IMPLEMENTATION tells the peer. Default: "sluice". "-": the option is not sent.
	Implementation string

	Limits
	Timeouts

	Logger *slog.Logger // default: slog.Default()
}

// Limits bound what a peer can make an endpoint hold. The zero value is the default.
type Limits struct {
	// MaxAuthTokenCacheSize is how many bytes of tokens the peer may register, each counted as 16 bytes and its value
	// (draft §10.3.1.3). Default: 16 KiB. Negative: none.
	MaxAuthTokenCacheSize int
	// MaxSubscriptions is how many subscriptions the peer may have open, as publisher and as subscriber together.
	// Default: 1,024.
	MaxSubscriptions int
	// MaxFetches is how many FETCH and TRACK_STATUS requests of the peer may be open. Default: 128.
	MaxFetches int
	// MaxNamespaces is how many PUBLISH_NAMESPACE, SUBSCRIBE_NAMESPACE and SUBSCRIBE_TRACKS requests of the peer may be
	// open; and how many namespaces the peer may report on one SUBSCRIBE_NAMESPACE. Default: 1,024.
	MaxNamespaces int
	// RequestRate is how many requests and updates a second the peer may send on average, and RequestBurst how many
	// at once. Defaults: 100 and 1,000.
	RequestRate, RequestBurst int
	// MaxHeldStreams is how many data streams may wait for the message that explains them. Default: 64.
	MaxHeldStreams int
	// MaxHeldDatagrams is how many bytes of datagrams may wait likewise. Default: 64 KiB.
	MaxHeldDatagrams int
	// MaxSendQueue is how many bytes of messages may wait until the peer reads a stream. Default: 1 MiB.
	MaxSendQueue int
}

// Timeouts bound how long to wait for a peer. The zero value is the default.
type Timeouts struct {
	// Setup is for the SETUP message. Default: 10 s.
	Setup time.Duration
	// Message is for a whole control message once its first byte has arrived. Default: 10 s.
	Message time.Duration
	// Header is for the header of a data stream; it can be long, since streams compete. Default: 30 s.
	Header time.Duration
	// Response is for the first response to a request of ours, and to an update of it. A request that asks the peer to
	// wait is given that time in addition. Default: 60 s.
	Response time.Duration
	// Hold is how long data is kept for a track alias that nobody has explained yet, and a Joining Fetch for a
	// subscription that has not arrived yet. Default: 2 s.
	Hold time.Duration
	// Write is how long the peer may let messages wait on a stream. Default: 10 s.
	Write time.Duration
	// Drain is how long to wait for late streams after PUBLISH_DONE, if the delivery timeouts of the subscription are
	// not longer (draft §10.11), and before the session is closed because the peer gave up a control stream.
	// Default: 2 s.
	Drain time.Duration
}

func (c Config) withDefaults() Config {
	if c.Handler == nil {
		c.Handler = Unsupported{}
	}
	c.Implementation = cmp.Or(c.Implementation, "sluice")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Limits = c.Limits.withDefaults()
	c.Timeouts = c.Timeouts.withDefaults()
	return c
}

func (l Limits) withDefaults() Limits {
	l.MaxAuthTokenCacheSize = max(cmp.Or(l.MaxAuthTokenCacheSize, 16<<10), 0)
	l.MaxSubscriptions = cmp.Or(l.MaxSubscriptions, 1024)
	l.MaxFetches = cmp.Or(l.MaxFetches, 128)
	l.MaxNamespaces = cmp.Or(l.MaxNamespaces, 1024)
	l.RequestRate = cmp.Or(l.RequestRate, 100)
	l.RequestBurst = cmp.Or(l.RequestBurst, 1000)
	l.MaxHeldStreams = cmp.Or(l.MaxHeldStreams, 64)
	l.MaxHeldDatagrams = cmp.Or(l.MaxHeldDatagrams, 64<<10)
	l.MaxSendQueue = cmp.Or(l.MaxSendQueue, 1<<20)
	return l
}

func (t Timeouts) withDefaults() Timeouts {
	t.Setup = cmp.Or(t.Setup, 10*time.Second)
	t.Message = cmp.Or(t.Message, 10*time.Second)
	t.Header = cmp.Or(t.Header, 30*time.Second)
	t.Response = cmp.Or(t.Response, time.Minute)
	t.Hold = cmp.Or(t.Hold, 2*time.Second)
	t.Write = cmp.Or(t.Write, 10*time.Second)
	t.Drain = cmp.Or(t.Drain, 2*time.Second)
	return t
}

func (c *Config) validate() error {
	l, t := c.Limits, c.Timeouts
	switch {
	case min(l.MaxSubscriptions, l.MaxFetches, l.MaxNamespaces, l.RequestRate, l.RequestBurst, l.MaxHeldStreams,
		l.MaxHeldDatagrams, l.MaxSendQueue) < 0:
		return errors.New("a limit is negative: 0 stands for the default")
	case min(t.Setup, t.Message, t.Header, t.Response, t.Hold, t.Write, t.Drain) < 0:
		return errors.New("a timeout is negative: 0 stands for the default")
	case c.Role > Server:
		return fmt.Errorf("role %d is neither client nor server", c.Role)
	case c.Role == Server && (c.Authority != "" || c.Path != ""):
		return errors.New("authority and path are for clients")
	}
	for _, t := range c.Tokens {
		if t.AliasType != moqt.AliasRegister && t.AliasType != moqt.AliasUseValue {
			return errors.New("tokens for SETUP have to be values or registrations")
		}
	}
	return nil
}
