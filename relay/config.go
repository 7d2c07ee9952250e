package relay

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"sluice/fastpath"
	"sluice/internal/bounds"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/track"
)

// Config is the configuration of a Relay. The zero value is the default.
type Config struct {
	// Cache limits how much of the tracks is kept.
	Cache track.CacheConfig
	// Authorizer decides what peers may do. Default: AllowAll, with a warning.
	Authorizer Authorizer
	// Scope decides which sessions have tracks in common. Default: OneScope.
	Scope Scoping
	// Session has the limits and timeouts of sessions. The relay sets Role, Handler, Refused and Logger. The default of
	// HopID is a random number.
	Session session.Config

	// FastPath forwards tracks in the kernel. The loop of the media senders has to share its memory. Default: none.
	FastPath *fastpath.FastPath
	// FastPathPolicy chooses how many subscribers the fast path serves. Default: FastPathBudget(0).
	FastPathPolicy FastPathPolicy

	// MaxSessions is how many peers may be connected. Default: 16,384.
	MaxSessions int
	// MaxTracks is how many tracks may be published, wanted or cached at a time. Default: 65,536.
	MaxTracks int
	// MaxRequests is how many requests of peers may be open at a time, in all sessions. Default: 131,072: each takes
	// 10 to 20 KB of memory.
	MaxRequests int
	// MaxMatches is how many namespaces, or tracks, a SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS may match when it is
	// made, or its prefix is updated; with more it is refused with NAMESPACE_TOO_LARGE. Later a SUBSCRIBE_NAMESPACE is
	// not told of more at a time. Default: DefaultMaxMatches.
	MaxMatches int
	// MatchRate is how many namespaces and tracks all these requests and updates of a session may match per second on
	// average, after the first MaxMatches; beyond that they are refused with EXCESSIVE_LOAD. Default: 1,000.
	MatchRate int

	// PerAddress limits the sessions from one source address: an IPv4 address or the /64 of an IPv6 address. PerToken
	// limits what one token is used for, as the Authorizer's Grant.Subject says.
	PerAddress, PerToken Quota
	// Exempt are addresses without quotas, such as those of a gateway in front of many viewers, or of other relays.
	// Their sessions may also have more requests open than others.
	Exempt []netip.Prefix

	// OriginNeedsProof lets only peers ask at OriginPath that have proved who they are: see
	// [transport.Conn.PeerIsVerified]. Others are refused (UNAUTHORIZED). Default: all may ask.
	OriginNeedsProof bool

	// Linger is how long an upstream subscription outlives its last subscriber. Default: 2 s. Negative: not at all.
	Linger time.Duration
	// Grace is how long subscribers and their streams wait for a publisher to come back after its session was lost.
	// Default: 5 s. Negative: not at all.
	Grace time.Duration
	// MaxRendezvous bounds RENDEZVOUS_TIMEOUT (draft §10.2.6). Default: 60 s.
	MaxRendezvous time.Duration
	// FillTimeout is how long a FETCH waits for a publisher at a time, for all upstream relays that connect, and for
	// all objects that may come by subscription; FILL_TIMEOUT, if the FETCH has it, limits all waits together (draft
	// §10.2.5). Default: 10 s.
	FillTimeout time.Duration
	// StallTimeout ends a FETCH whose data the peer does not take. Default: 30 s.
	StallTimeout time.Duration

	// OnEvent is called when a session, a publication or the subscribers of a track come or go. The relay holds locks
	// meanwhile, so OnEvent must return at once, and must not call the relay. Default: nothing happens.
	OnEvent func(Event)

	Logger *slog.Logger // default: slog.Default()
}

// DefaultMaxFilterRanges is how many ranges the Range Filters of a request may have by default. Each costs time for
// each object.
const DefaultMaxFilterRanges = 64

// DefaultMaxMatches is far more than a client shows, and few enough to be walked in a request.
const DefaultMaxMatches = 10_000

func (c Config) withDefaults() Config {
	c.Session.Renditions = true
	c.Session.HopID = cmp.Or(c.Session.HopID, 1+rand.Uint64N(1<<62-1)) // some relays take 62 bits
	c.MaxSessions = cmp.Or(c.MaxSessions, 16384)
	c.MaxTracks = cmp.Or(c.MaxTracks, 65536)
	c.MaxRequests = cmp.Or(c.MaxRequests, 131_072)
	c.Session.Limits.MaxFilterRanges = max(0, cmp.Or(c.Session.Limits.MaxFilterRanges, DefaultMaxFilterRanges))
	c.MaxMatches = cmp.Or(c.MaxMatches, DefaultMaxMatches)
	c.MatchRate = cmp.Or(c.MatchRate, 1000)
	c.PerAddress = c.PerAddress.WithDefaults(charge.PerAddress)
	c.PerToken = c.PerToken.WithDefaults(charge.PerToken)
	c.Linger = max(0, cmp.Or(c.Linger, 2*time.Second))
	c.Grace = max(0, cmp.Or(c.Grace, 5*time.Second))
	c.Cache.Grace = c.Grace
	c.MaxRendezvous = cmp.Or(c.MaxRendezvous, time.Minute)
	c.FillTimeout = cmp.Or(c.FillTimeout, 10*time.Second)
	c.StallTimeout = cmp.Or(c.StallTimeout, 30*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Scope == nil {
		c.Scope = OneScope
	}
	if c.FastPathPolicy == nil {
		c.FastPathPolicy = FastPathBudget(0)
	}
	return c
}

func (c *Config) validate() error {
	return cmp.Or(
		bounds.AtLeast("MaxSessions", c.MaxSessions, 0),
		bounds.AtLeast("MaxTracks", c.MaxTracks, 0),
		bounds.AtLeast("MaxRequests", c.MaxRequests, 0),
		bounds.AtLeast("MaxMatches", c.MaxMatches, 0),
		bounds.AtLeast("MatchRate", c.MatchRate, 0),
		bounds.AtLeast("MaxRendezvous", c.MaxRendezvous, 0),
		bounds.AtLeast("FillTimeout", c.FillTimeout, 0),
		bounds.AtLeast("StallTimeout", c.StallTimeout, 0),
		c.PerAddress.Validate("PerAddress"),
		c.PerToken.Validate("PerToken"),
	)
}

// Quota limits what the sessions of one account use together: Sessions, Tracks, Namespaces, Subscriptions and Requests
// that are open or exist, RequestRate in requests per second, and Upload and Download in bits per second. In each field
// 0 is the default, and a negative number is no limit.
type Quota = charge.Quota

const (
	// MinBitRate is the smallest quota of bits per second.
	MinBitRate = charge.MinBitRate
	// MaxBitRate is the largest one.
	MaxBitRate = charge.MaxBitRate
)

// QuotaNames are the names of the fields of a Quota, in flags and metrics.
func QuotaNames() []string { return charge.QuotaNames() }
