package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"sluice/congestion"
	"sluice/fastpath"
	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/media"
	"sluice/relay"
	"sluice/server"
	"sluice/server/handover"
	"sluice/server/otlp"
	"sluice/transport"
)

// relayFlags are the flags of sluice relay.
type relayFlags struct {
	cfg           server.Config // flags set it directly
	dev           bool
	devHosts      []string
	cacheMiB      int
	maxBehindMiB  int
	scope, drop   string
	policy        string
	congestion    string
	auth          authFlags
	upstream      upstreamFlags
	cluster       clusterFlags
	events        eventFlags
	qlog          qlogFlags
	otlp          otlpFlag
	drain         time.Duration
	drainURI      string
	admin         string
	adminHosts    []string
	web           webFlag
	acme          acmeFlags
	rtsp          rtspFlags
	inside        insideFlag
	pprof         bool
	sockets       int
	control       string
	replace       bool
	background    bool
	replaceDrain  time.Duration
	replaceGoaway string
	exempt        []string
}

// register registers the flags, and returns them in groups.
func (f *relayFlags) register(cmd *cobra.Command) *cli.FlagGroups {
	groups := cli.GroupFlags(cmd)
	groups.Add("", cli.AddConfigFlag)
	groups.Add("Listening and TLS", f.registerTransport)
	groups.Add("Certificates of an authority (ACME)", f.acme.register)
	groups.Add("Authorization", f.auth.register)
	groups.Add("Fast path (in the kernel)", f.registerFastPath)
	groups.Add("Paths that carry too little", f.registerCongestion)
	groups.Add("Upstream relays", f.upstream.register)
	groups.Add("Cluster", f.cluster.register)
	groups.Add("RTSP", f.rtsp.register)
	groups.Add("Web page, metrics, events and qlogs", f.registerPages)
	groups.Add("Limits and the cache", f.registerLimits)
	groups.Add("Shutdown and replacement", f.registerReplacement)
	groups.Show("Most relays need some of these flags", "config", "listen", "tls-cert", "tls-key", "acme",
		"dev", "auth-token-file", "upstream", "cluster", "rtsp", "fastpath", "admin")
	return groups
}

func (f *relayFlags) registerTransport(cmd *cobra.Command) {
	flags, cfg := cmd.Flags(), &f.cfg.Transport
	flags.StringVar(&f.cfg.Listen, "listen", ":4443", "UDP `address` to listen on")
	flags.StringVar(&cfg.CertFile, "tls-cert", "", "PEM `file` with the certificate and its chain")
	flags.StringVar(&cfg.KeyFile, "tls-key", "", "PEM `file` with its private key")
	flags.BoolVar(&f.dev, "dev", false,
		"make a certificate for tests, valid for 13 days, and print its SHA-256 for clients; with --replace, take "+
			"the running relay's, unless it ends within a day")
	flags.StringSliceVar(&f.devHosts, "dev-host", nil, "more host names and addresses for the certificate of --dev")
	flags.StringSliceVar(&cfg.Origins, "origin", nil,
		"web `origins` whose pages may connect, such as https://player.example (default: all)")
	flags.DurationVar(&cfg.IdleTimeout, "idle-timeout", 30*time.Second,
		"end connections that are silent for this `duration`")
	flags.StringVar(&f.scope, "scope", "one", "which sessions share tracks: one (all of them), path (those with "+
		"the same path in their URL) or url (those with the same authority, too)")
	flags.BoolVar(&f.cfg.Relay.Session.Strict, "strict", false, "tolerate no known mistakes of other implementations, "+
		"even if they harm nobody")
	flags.IntVar(&f.sockets, "sockets", defaultSockets, fmt.Sprintf(
		"`number` of UDP sockets at the address, at most %d, each with a reader and with connections of its own, for "+
			"many processors; 0 is one for each processor; several need CAP_BPF", handover.MaxSockets))
	cmd.MarkFlagsMutuallyExclusive("dev", "tls-cert")
	cmd.MarkFlagsMutuallyExclusive("dev", "tls-key")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
}

func (f *relayFlags) registerFastPath(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar((*string)(&f.cfg.FastPath.Mode), "fastpath", string(server.FastPathAuto),
		"forward media in the kernel: auto, on (fail if that is not possible) or off")
	flags.StringSliceVar(&f.cfg.FastPath.Devices, "device", nil,
		"network `devices` for --fastpath (default: those with the listening address, or all "+
			"if the relay dials others)")
	flags.IntVar(&f.cfg.FastPath.MaxCopies, "fastpath-budget", fastpath.DefaultMaxCopies, fmt.Sprintf(
		"largest `number` of subscribers of one track that the kernel serves, at most %d; of RTSP players it serves "+
			"four times as many at once, at most %d", fastpath.MaxSubscriptions, fastpath.MaxRTPRun))
	flags.IntVar(&f.cfg.FastPath.Workers, "fastpath-workers", -1, fmt.Sprintf(
		"`number` of workers, at most %d, that serve up to %d RTSP players of one media, beyond those that it serves "+
			"at once; -1 is one for each processor", fastpath.MaxWorkers, fastpath.MaxPlayers))
	flags.IntVar(&f.cfg.FastPath.MaxConnections, "fastpath-connections", fastpath.DefaultMaxConnections,
		"largest `number` of connections that the kernel serves, half of it of one address; each takes up to 262 KiB")
	flags.IntVar(&f.cfg.FastPath.MaxSubgroups, "fastpath-subgroups", fastpath.DefaultMaxSubgroups,
		"largest `number` of publishers' streams that the kernel knows, until 10 s after their end; each takes 264 "+
			"bytes, and one publisher may have as many as are free")
	flags.IntVar(&f.cfg.FastPath.MaxObjects, "fastpath-objects", fastpath.DefaultMaxObjects,
		"largest `number` of objects in datagrams that the kernel can claim in 10 s; each takes 116 bytes, and one "+
			"publisher may have as many as are free")
}

func (f *relayFlags) registerCongestion(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.drop, "drop", "bytes",
		"what to drop for a subscriber whose path carries too little: bytes (objects of the lowest priorities, as "+
			"many as do not fit, and groups that are late), priority (all of the lowest, while data waits too "+
			"long) or none. For RTSP players, bytes and priority are the same")
	flags.StringVar(&f.congestion, "congestion", "cubic",
		"congestion `controller`: cubic; bbr, which goes on in spite of random losses and, in simulations, keeps "+
			"queues short; or prague, for paths that mark packets as soon as they wait (L4S)")
	flags.StringVar(&f.policy, "policy", "",
		"object `file` of clang with a BPF function admit, by which the kernel and the process decide what may go "+
			"(see examples/policy)")
}

func (f *relayFlags) registerPages(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.web.register(cmd)
	flags.StringVar(&f.admin, "admin", "127.0.0.1:4480",
		"TCP `address` for sluice relay status, /metrics (Prometheus), /healthz and /readyz; '' for none")
	flags.StringSliceVar(&f.adminHosts, "admin-host", nil,
		"host `names` by which clients may call the --admin address, besides addresses and localhost")
	f.inside.register(cmd)
	flags.BoolVar(&f.pprof, "admin-pprof", false, "serve Go profiles at the admin address, too")
	f.events.register(cmd)
	f.qlog.register(cmd)
	f.otlp.register(cmd)
}

func (f *relayFlags) registerLimits(cmd *cobra.Command) {
	flags, cfg := cmd.Flags(), &f.cfg.Relay
	flags.DurationVar(&cfg.Cache.Duration, "cache-duration", 30*time.Second, "keep objects for this `duration`")
	flags.IntVar(&f.cacheMiB, "cache-size", 256, "keep at most this many `MiB` of objects")
	flags.IntVar(&cfg.MaxSessions, "max-sessions", 16384, "largest `number` of sessions")
	flags.IntVar(&cfg.MaxTracks, "max-tracks", 65536,
		"largest `number` of tracks that are published, subscribed to or cached")
	flags.IntVar(&cfg.MaxMatches, "max-matches", relay.DefaultMaxMatches,
		"largest `number` of namespaces or tracks that the prefix of a request may match")
	flags.IntVar(&cfg.MaxRequests, "max-requests", 131_072, "largest `number` of open requests of all sessions")
	flags.Var(quotaFlag{&cfg.PerAddress}, "quota-per-address",
		"what the sessions from one IPv4 address or IPv6 /64 may use; by default sessions=1024, tracks=4096, "+
			"namespaces=1024, subscriptions=8192, requests=8192, streams=262144, request-rate=1000, upload=250mbit, "+
			"download=1gbit; none is no limit")
	flags.Var(quotaFlag{&cfg.PerToken}, "quota-per-token",
		"what one token may be used for; by default tracks=16384, namespaces=1024, upload=1gbit")
	flags.StringSliceVar(&f.exempt, "quota-exempt", nil,
		"`addresses` and networks without quotas, such as 192.0.2.7 or 10.0.0.0/8; the relays that have this one "+
			"as their --upstream need that")
	flags.DurationVar(&f.cfg.AckTimeout, "ack-timeout", media.DefaultAckTimeout,
		"reset a stream when its subscriber does not acknowledge sent data for this `duration`")
	flags.DurationVar(&f.cfg.MaxBehind, "max-behind", media.DefaultMaxBehind,
		"end a subscription (TOO_FAR_BEHIND) when data for it has waited for this `duration`")
	flags.IntVar(&f.maxBehindMiB, "max-behind-size", media.DefaultMaxBehindBytes>>20,
		"end a subscription when this many `MiB` of it are not sent or not acknowledged")
}

// dropPolicies are the values of --drop.
var dropPolicies = map[string]func() media.DropPolicy{
	"bytes":    func() media.DropPolicy { return new(media.Budget) },
	"priority": func() media.DropPolicy { return new(media.PriorityDrop) },
	"none":     nil,
}

// defaultSockets is enough for a dozen processors: see docs/architecture.md.
const defaultSockets = 1

var scopes = map[string]relay.Scoping{"one": relay.OneScope, "path": relay.ScopeByPath, "url": relay.ScopeByURL}

// minBehind is the smallest --max-behind: a player that connects again would be as late.
const minBehind = 100 * time.Millisecond

// maxMiB is the largest size of memory and of a disk: 1 TiB.
const maxMiB = 1 << 20

// check returns the first mistake in the flags.
func (f *relayFlags) check() error {
	given := f.dev || f.cfg.Transport.CertFile != ""
	if !given && !f.acme.isOn() {
		return errors.New("a certificate is required: --tls-cert FILE --tls-key FILE, --acme NAME, or --dev to try " +
			"things out")
	}
	if f.drainURI != "" {
		if _, err := transport.ParseURL(f.drainURI); err != nil {
			return fmt.Errorf("--drain-uri: %w", err)
		}
	}
	if f.replace && f.control == "" {
		return errors.New("--replace needs the control socket of the running relay: --control PATH")
	}
	if f.background && !f.replace {
		return errors.New("--background needs --replace")
	}
	const allowed = "an address such as :4443 or 127.0.0.1:4480"
	var admin error
	if f.admin != "" {
		admin = bounds.Address("--admin", f.admin, allowed)
	}
	_, exempt := parsePrefixes("--quota-exempt", f.exempt)
	return cmp.Or(
		bounds.Address("--listen", f.cfg.Listen, allowed), admin, checkOrigins(f.cfg.Transport.Origins), exempt,
		checkControl(f.control),
		f.web.check(),
		f.acme.check(given, &f.web),
		f.rtsp.check(f.scope),
		f.auth.check(),
		f.events.check(),
		f.qlog.check(),
		checkURL("--otlp-url", f.otlp.url, otlp.CheckURL),
		f.upstream.check(f.scope, &f.cluster),
		f.cluster.check(f.scope),
		bounds.Check("--sockets", f.sockets, 0, handover.MaxSockets),
		bounds.AtLeast("--idle-timeout", f.cfg.Transport.IdleTimeout, 0),
		bounds.Check("--cache-size", f.cacheMiB, 0, maxMiB),
		bounds.AtLeast("--cache-duration", f.cfg.Relay.Cache.Duration, 0),
		bounds.AtLeast("--drain", f.drain, 0),
		bounds.AtLeast("--replace-drain", f.replaceDrain, 0),
		bounds.OneOf("--replace-goaway", f.replaceGoaway, "named", "all", "none"),
		bounds.AtLeast("--max-sessions", f.cfg.Relay.MaxSessions, 1),
		bounds.AtLeast("--max-tracks", f.cfg.Relay.MaxTracks, 1),
		bounds.AtLeast("--max-requests", f.cfg.Relay.MaxRequests, 1),
		bounds.OneOf("--fastpath", string(f.cfg.FastPath.Mode), "auto", "on", "off"),
		bounds.Check("--fastpath-workers", f.cfg.FastPath.Workers, -1, fastpath.MaxWorkers),
		bounds.Check("--fastpath-budget", f.cfg.FastPath.MaxCopies, 1, fastpath.MaxSubscriptions),
		bounds.Check("--fastpath-connections", f.cfg.FastPath.MaxConnections, 1, fastpath.MaxConnections),
		bounds.Check("--fastpath-subgroups", f.cfg.FastPath.MaxSubgroups, fastpath.MinSubgroups, fastpath.MaxSubgroups),
		bounds.Check("--fastpath-objects", f.cfg.FastPath.MaxObjects, fastpath.MinObjects, fastpath.MaxObjects),
		bounds.AtLeast("--max-behind", f.cfg.MaxBehind, minBehind),
		bounds.Check("--max-behind-size", f.maxBehindMiB, 1, maxMiB),
		bounds.AtLeast("--max-matches", f.cfg.Relay.MaxMatches, 1),
		bounds.AtLeast("--ack-timeout", f.cfg.AckTimeout, server.MinAckTimeout),
		bounds.OneOf("--scope", f.scope, "one", "path", "url"),
		bounds.OneOf("--congestion", f.congestion, slices.Sorted(maps.Keys(congestion.Controllers))...),
		bounds.OneOf("--drop", f.drop, "bytes", "priority", "none"))
}

// config returns the configuration that the flags describe, but for the certificate of --dev.
func (f *relayFlags) config(getenv func(string) string) (cfg server.Config, err error) {
	cfg = f.cfg
	cfg.Logger, cfg.AdaptRuntime = slog.Default(), os.Getenv("GOMAXPROCS") == ""
	cfg.Relay.Scope = scopes[f.scope]
	cfg.Relay.Cache.Size = int64(f.cacheMiB) << 20
	if f.cacheMiB == 0 || cfg.Relay.Cache.Duration == 0 {
		cfg.Relay.Cache.Duration = -1 // nothing is kept
	}
	cfg.MaxBehindBytes = int64(f.maxBehindMiB) << 20
	cfg.Transport.MaxConnections = cfg.Relay.MaxSessions
	if cfg.FastPath.Workers < 0 {
		cfg.FastPath.Workers = fastpath.DefaultWorkers()
	}
	cfg.FastPath.RTPPort = f.rtsp.rtpPort()
	if cfg.Relay.Exempt, err = parsePrefixes("--quota-exempt", f.exempt); err != nil {
		return cfg, cli.AsUsage(err)
	}
	cfg.NewController = congestion.Controllers[f.congestion]
	cfg.NewDropPolicy = dropPolicies[f.drop]
	if cfg.Relay.Authorizer, err = f.auth.authorizer(f.replace); err != nil {
		return cfg, err
	}
	if err = f.inside.open(); err != nil {
		return cfg, err
	}
	cfg.FastPath.Dials = f.cluster.isOn()
	cfg.Transport.Mutual = f.cluster.mutualTLS()
	if cfg.Upstream, err = f.upstream.config(getenv); err != nil {
		return cfg, err
	}
	if cfg.Relay.OnEvent, err = f.events.open(); err != nil {
		return cfg, err
	}
	if err = cmp.Or(f.acme.open(&cfg), f.qlog.open(&cfg), f.otlp.open(&cfg)); err != nil {
		return cfg, err
	}
	if f.policy != "" {
		if cfg.Rule, err = fastpath.LoadRule(f.policy, cfg.Logger); err != nil {
			err = fmt.Errorf("--policy: %w", err)
		}
	}
	return cfg, err
}
