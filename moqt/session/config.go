package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"sluice/moqt"
)

// Role says which end of the transport session an endpoint is.
type Role uint8

const (
	// Client is the endpoint that opened the transport session.
	Client Role = iota
	// Server is the endpoint that accepted it.
	Server
)

func (r Role) String() string {
	if r == Server {
		return "server"
	}
	return "client"
}

// Config is the configuration of a [Session]. The zero value is for a client that refuses all requests.
type Config struct {
	Role Role
	// Handler takes the requests of the peer. Default: [Unsupported].
	Handler Handler

	// Authority and Path are options of SETUP: a client on raw QUIC names the resource that it connects to (draft
	// §10.3.1.1, §10.3.1.2). Path includes "?" and the query if the URL has one. Servers leave them empty. On
	// WebTransport they are not sent.
	Authority, Path string
	// Tokens authorize the session. Tokens of the session and of requests are sent by value (AliasUseValue).
	Tokens []moqt.Token
	// Implementation is the value of MOQT_IMPLEMENTATION. Default: "sluice". "-": the option is not sent.
	Implementation string
	// HopID is the Hop ID of a relay. The relay knows messages that come back to it by this ID
	// (draft-lcurley-moq-cluster). Requests of a session with a Hop ID wait for the peer's SETUP. Default: 0, and the
	// session takes and sends no HOP_PATH.
	HopID uint64
	// Renditions is whether the session tells the peer that it takes RENDITION in SUBSCRIBE.
	Renditions bool
	// Strict treats all peers as the draft says, even if their mistakes harm nobody: see [Mistake].
	Strict bool

	Limits
	// ResponseTimeout is for the response to a request, and to an update. If a request asks the peer to wait, that time
	// is added. Default: 60 s.
	ResponseTimeout time.Duration
	// Hold is how long data waits for the message that assigns its Track Alias, and a joining fetch for its
	// subscription. Default: 2 s.
	Hold time.Duration

	// Refused is called with the code of each request and update of the peer that the session itself refuses. It must
	// not block. Default: none.
	Refused func(moqt.RequestErrorCode)
	// Requested is called with each request of the peer. The function that it returns is called once: when the request
	// is answered, with the *[moqt.RequestError] if it is refused, and with another error if it ends without an answer.
	// Both must not block, and not call the session. Default: none.
	Requested func(RequestInfo) func(error)
	Logger    *slog.Logger // default: slog.Default()
}

// Limits bound the memory and the work that a peer can cause. The zero value is the default.
type Limits struct {
	// MaxAuthTokenCacheSize is the size in bytes of all tokens that the peer may register. Each counts as 16 bytes plus
	// its value (draft §10.3.1.3). Default: 16 KiB. Negative: none.
	MaxAuthTokenCacheSize int
	// MaxAuthTokenMemory is the size in bytes of all tokens that authorize the requests that the peer has open. Each
	// counts as 16 bytes plus its value. [moqt.MaxAuthTokens] limits the tokens of one message. Default: 2 MiB.
	MaxAuthTokenMemory int
	// MaxSubscriptions is the number of subscriptions that the peer may have open, as publisher and as subscriber
	// together. Default: 1,024.
	MaxSubscriptions int
	// MaxFetches is the number of FETCH and TRACK_STATUS requests that the peer may have open. Default: 128.
	MaxFetches int
	// MaxNamespaces is the number of PUBLISH_NAMESPACE, SUBSCRIBE_NAMESPACE and SUBSCRIBE_TRACKS requests that the peer
	// may have open, and the number of namespaces that it may report for one SUBSCRIBE_NAMESPACE. Default: 1,024.
	MaxNamespaces int
	// MaxFilterRanges is the number of ranges that the Range Filters of a request may have. Default: 0, and the peer
	// may send no such filters.
	MaxFilterRanges int
	// RequestRate is the number of requests and updates per second that the peer may send on average, and RequestBurst
	// the number that it may send at once. Defaults: 100 and 1,000.
	RequestRate, RequestBurst int
	// Pacer limits the requests and updates of several sessions together, as RequestRate limits a single session.
	// Default: none.
	Pacer Pacer
	// MaxHeldStreams is the number of data streams that may wait for the message that assigns their Track Alias.
	// Default: 64.
	MaxHeldStreams int
	// MaxHeldDatagrams is how many bytes of memory all datagrams may take that wait for that message. Default: 64 KiB.
	MaxHeldDatagrams int
	// MaxSendQueue is the size in bytes of the messages that may wait until the peer reads a stream. Default: 1 MiB.
	MaxSendQueue int
}

// Pacer limits a rate. A *rate.Limiter is one.
type Pacer interface {
	// Allow reports whether a request may be served now. If not, the session refuses it with EXCESSIVE_LOAD.
	Allow() bool
	// Wait waits until an update may be served. It fails if the context is done before.
	Wait(context.Context) error
}

// How long an endpoint waits for its peer, beside what [Config] says.
const (
	setupTimeout   = 10 * time.Second // for the SETUP message
	messageTimeout = 10 * time.Second // for a whole control message once its first byte has arrived
	// headerTimeout is for the header of a data stream, once its first byte has arrived, and for that byte while there
	// is no subscription. It is long because streams compete for bandwidth.
	headerTimeout = 30 * time.Second
	writeTimeout  = 10 * time.Second // of messages that wait until the peer reads them
	// drainTime is how long late streams may arrive after PUBLISH_DONE, unless a delivery timeout of the subscription
	// is longer (draft §10.11), and how long a session goes on after the peer has closed its control stream.
	drainTime = 2 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Handler == nil {
		c.Handler = Unsupported{}
	}
	if c.Refused == nil {
		c.Refused = func(moqt.RequestErrorCode) {}
	}
	c.Implementation = cmp.Or(c.Implementation, "sluice")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Limits = c.Limits.withDefaults()
	c.ResponseTimeout = cmp.Or(c.ResponseTimeout, time.Minute)
	c.Hold = cmp.Or(c.Hold, 2*time.Second)
	return c
}

func (l Limits) withDefaults() Limits {
	l.MaxAuthTokenCacheSize = max(cmp.Or(l.MaxAuthTokenCacheSize, 16<<10), 0)
	l.MaxAuthTokenMemory = cmp.Or(l.MaxAuthTokenMemory, 2<<20) // 2 KiB for each of 1,024 subscriptions
	l.MaxSubscriptions = cmp.Or(l.MaxSubscriptions, 1024)
	l.MaxFetches = cmp.Or(l.MaxFetches, 128)
	l.MaxNamespaces = cmp.Or(l.MaxNamespaces, 1024)
	l.RequestRate = cmp.Or(l.RequestRate, 100)
	l.RequestBurst = cmp.Or(l.RequestBurst, 1000)
	if l.Pacer == nil {
		l.Pacer = rate.NewLimiter(rate.Inf, 0)
	}
	l.MaxHeldStreams = cmp.Or(l.MaxHeldStreams, 64)
	l.MaxHeldDatagrams = cmp.Or(l.MaxHeldDatagrams, 64<<10)
	l.MaxSendQueue = cmp.Or(l.MaxSendQueue, 1<<20)
	return l
}

func (c *Config) validate() error {
	switch {
	case c.Role > Server:
		return fmt.Errorf("Role: %d: must be Client or Server", c.Role)
	case c.Role == Server && (c.Authority != "" || c.Path != ""):
		return errors.New("fields Authority and Path: must be empty for a server")
	}
	return checkOwnTokens(c.Tokens)
}

func (l Limits) of(class loadClass) int {
	return [loadClasses]int{l.MaxSubscriptions, l.MaxFetches, l.MaxNamespaces}[class]
}
