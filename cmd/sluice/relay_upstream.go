package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/cli"
	"sluice/internal/files"
	"sluice/moqt"
	"sluice/server"
	"sluice/transport"
)

// upstreamFlags are the flags of sluice relay about upstream relays.
type upstreamFlags struct {
	urls      []string
	routes    []string // PREFIX=URL
	announce  []string
	tokenFile string
	hosts     []string
	sha256    string
	transport transport.ClientConfig
	all       *pflag.FlagSet // of the command
}

func (f *upstreamFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.all = flags
	flags.StringSliceVar(&f.urls, "upstream", nil,
		"`URLs` of another relay to subscribe at for tracks nobody publishes here, such as moqt://origin.example; "+
			"with several, each is asked when those before it have no session or no publisher")
	flags.StringArrayVar(&f.routes, "upstream-namespace", nil,
		"`PREFIX=URL`: another --upstream for the namespaces with a prefix, such as live/sport=moqt://sport.example; "+
			"the longest prefix counts; may be repeated")
	flags.StringSliceVar(&f.announce, "upstream-announce", nil,
		"namespace `prefixes`, such as live/mine: tell upstream relays of the namespaces below them in which peers of "+
			"this relay publish, so that they can subscribe here; / is all")
	flags.StringVar(&f.tokenFile, "upstream-token-file", "",
		"`file` with the authorization token for upstream relays, and for other nodes of the cluster; or set "+
			"SLUICE_UPSTREAM_TOKEN")
	flags.StringSliceVar(&f.hosts, "upstream-goaway-host", nil,
		"`hosts` to which an upstream relay may send this one when it goes away (GOAWAY), besides its own host; "+
			"they get the token, too; * is any host")
	flags.StringVar(&f.transport.CAFile, "upstream-ca", "",
		"trust the certificate authorities in this PEM `file` for upstream relays, instead of the system's")
	flags.StringVar(&f.sha256, "upstream-sha256", "",
		"trust only the certificate with this SHA-256 `fingerprint`, which 'sluice relay --dev' prints, for upstream "+
			"relays")
	flags.StringVar(&f.transport.CertFile, "upstream-cert", "",
		"PEM `file` with a certificate for upstream relays that ask for one; Sluice does not")
	flags.StringVar(&f.transport.KeyFile, "upstream-key", "", "PEM `file` with its private key")
	flags.BoolVar(&f.transport.Insecure, "upstream-tls-disable-verify", false,
		"trust any certificate of upstream relays (for tests only: anyone on the path can read and change everything)")
	cmd.MarkFlagsMutuallyExclusive("upstream-ca", "upstream-sha256", "upstream-tls-disable-verify")
	cmd.MarkFlagsRequiredTogether("upstream-cert", "upstream-key")
}

// check returns the first mistake in the flags.
func (f *upstreamFlags) check(scope string, c *clusterFlags) error {
	cfg, err := f.settings()
	routes := cfg.Routes
	trust := f.given("upstream-ca", "upstream-sha256", "upstream-cert", "upstream-tls-disable-verify")
	other := f.given("upstream-announce", "upstream-goaway-host", "upstream-token-file")
	switch {
	case err != nil:
		return err
	case len(routes) == 0 && c.tls.CAFile != "" && trust != "":
		return fmt.Errorf("--%s: is for --upstream: nodes trust each other by --cluster-ca", trust)
	case len(routes) == 0 && !c.isOn() && trust+other != "":
		return fmt.Errorf("--%s: needs the URL of an upstream relay: --upstream or --upstream-namespace; or --cluster",
			cmp.Or(other, trust))
	case len(routes) > 0 && scope == "url":
		return errors.New("--scope url: must be one or path with --upstream, because the URL of an upstream relay is " +
			"not this one's")
	}
	return nil
}

// given returns the first of some flags that has another value than its default, or "".
func (f *upstreamFlags) given(names ...string) string {
	i := slices.IndexFunc(names, func(name string) bool {
		flag := f.all.Lookup(name)
		return flag.Value.String() != flag.DefValue
	})
	if i < 0 {
		return ""
	}
	return names[i]
}

// settings returns the configuration that the flags describe, but for the token.
func (f *upstreamFlags) settings() (cfg server.UpstreamConfig, err error) {
	if cfg.Routes, err = f.table(); err != nil {
		return cfg, cli.AsUsage(err)
	}
	cfg.Transport, cfg.GoawayHosts = f.transport, f.hosts
	if f.sha256 != "" {
		if cfg.Transport.CertificateSHA256, err = transport.ParseFingerprint(f.sha256); err != nil {
			return cfg, cli.Usage("--upstream-sha256: %w", err)
		}
	}
	for _, a := range f.announce {
		prefix, err := parsePrefix(a)
		if err != nil {
			return cfg, cli.Usage("--upstream-announce: %q: %w", a, err)
		}
		cfg.Announce = append(cfg.Announce, prefix)
	}
	return cfg, nil
}

// config returns the configuration that the flags describe.
func (f *upstreamFlags) config(getenv func(string) string) (cfg server.UpstreamConfig, err error) {
	if cfg, err = f.settings(); err != nil {
		return cfg, err
	}
	if f.transport.CAFile != "" {
		if _, err := transport.ReadAuthorities(f.transport.CAFile); err != nil {
			return cfg, fmt.Errorf("--upstream-ca: %w", err)
		}
	}
	if err = explainCertificate("--upstream", f.transport.CertFile, f.transport.KeyFile, nil); err != nil {
		return cfg, err
	}
	token := getenv("SLUICE_UPSTREAM_TOKEN")
	if f.tokenFile != "" {
		if token, err = files.Secret(f.tokenFile); err != nil {
			return cfg, fmt.Errorf("--upstream-token-file: %w", err)
		}
	}
	if token != "" {
		cfg.Tokens = []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte(token)}}
	}
	return cfg, nil
}

// table returns the routes. Flags with one prefix make one route, in their order.
func (f *upstreamFlags) table() (routes []server.UpstreamRoute, err error) {
	add := func(flag string, prefix moqt.Namespace, url string) error {
		if _, err := transport.ParseURL(url); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		for i, r := range routes {
			if r.Prefix.Key() == prefix.Key() {
				routes[i].URLs = append(r.URLs, url)
				return nil
			}
		}
		routes = append(routes, server.UpstreamRoute{Prefix: prefix, URLs: []string{url}})
		return nil
	}
	for _, url := range f.urls {
		if err := add("--upstream", nil, url); err != nil {
			return nil, err
		}
	}
	for _, r := range f.routes {
		name, urls, ok := strings.Cut(r, "=")
		if !ok {
			return nil, fmt.Errorf("--upstream-namespace: %q: must be PREFIX=URL, such as "+
				"live/sport=moqt://sport.example", r)
		}
		prefix, err := parsePrefix(name)
		if err != nil {
			return nil, fmt.Errorf("--upstream-namespace: %q: %w", name, err)
		}
		for url := range strings.SplitSeq(urls, ",") {
			if err := add("--upstream-namespace", prefix, url); err != nil {
				return nil, err
			}
		}
	}
	return routes, nil
}

// parsePrefix splits the prefix of a namespace at its slashes. It may be empty.
func parsePrefix(s string) (moqt.Namespace, error) {
	s = strings.Trim(s, "/")
	if s == "" {
		return nil, nil
	}
	prefix := moqt.Namespace(strings.Split(s, "/"))
	return prefix, prefix.Validate()
}
