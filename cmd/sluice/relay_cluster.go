package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/internal/files"
	"sluice/internal/webclient"
	"sluice/server"
	"sluice/server/cluster"
	"sluice/server/cluster/natsengine"
	"sluice/transport"
)

// clusterFlags are the flags of sluice relay about its cluster.
type clusterFlags struct {
	embed     bool
	listen    string
	join      []string
	urls      []string
	name      string
	node      string
	region    string
	advertise string
	price     float64
	capacity  string
	clientURI string
	rtts      string
	tls       natsengine.TLS
	tokenFile string
	all       *pflag.FlagSet // of the command
}

func (f *clusterFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.all = flags
	flags.BoolVar(&f.embed, "cluster", false, "be a node of a cluster: relays that find each other, and feed each "+
		"other's subscribers, with a NATS server in this process")
	flags.StringVar(&f.listen, "cluster-listen", "127.0.0.1:6222",
		"TCP `address` for the NATS servers of other nodes; one that other machines reach needs --cluster-ca")
	flags.StringSliceVar(&f.join, "cluster-join", nil, "`host:port` of other nodes' --cluster-listen; one is enough")
	flags.StringSliceVar(&f.urls, "cluster-url", nil,
		"`URLs` of NATS servers of your own, such as tls://nats.example, instead of --cluster")
	flags.StringVar(&f.name, "cluster-name", "sluice", "`name` of the cluster, the same for all nodes")
	flags.StringVar(&f.node, "node", "", "`name` of this node, which no other has (default: the name of the host)")
	flags.StringVar(&f.region, "region", "",
		"`name` of this node's region: each track comes into a region once, and goes on from node to node there")
	flags.StringVar(&f.advertise, "cluster-advertise", "",
		"`URL` at which other nodes reach this relay, such as moqt://west1.example; all nodes show it")
	flags.Float64Var(&f.price, "cluster-price", 0, "cost of asking this node, as `milliseconds` of round-trip "+
		"time: of several nodes with the same track, others ask the cheapest")
	flags.StringVar(&f.capacity, "cluster-capacity", "",
		"`rate` that the link of this node carries, such as 10gbit: its traffic is then part of the load that it "+
			"tells others, besides sessions and CPU time")
	flags.StringVar(&f.clientURI, "cluster-client-uri", "",
		"`URI` at which clients reach this node, such as https://west1.example: send clients that are much nearer to "+
			"another node there (GOAWAY), and take those of other nodes; all of them need this flag for that")
	flags.StringVar(&f.rtts, "cluster-rtt", "",
		"`URL` of the --metrics address of sluice rtt, such as http://127.0.0.1:9100: how far the networks of clients "+
			"are, besides what their sessions tell")
	flags.StringVar(&f.tls.CAFile, "cluster-ca", "",
		"PEM `file` with the authority that issues the certificates of all nodes, for their NATS servers and for "+
			"sessions between their relays")
	flags.StringVar(&f.tls.CertFile, "cluster-cert", "",
		"PEM `file` with this node's certificate, for servers and clients")
	flags.StringVar(&f.tls.KeyFile, "cluster-key", "", "PEM `file` with its private key")
	flags.StringVar(&f.tokenFile, "cluster-token-file", "",
		"`file` with a secret that all nodes have, or with the password of the NATS user with the name of this node; "+
			"or set SLUICE_CLUSTER_TOKEN")
	cmd.MarkFlagsMutuallyExclusive("cluster", "cluster-url")
	cmd.MarkFlagsRequiredTogether("cluster-ca", "cluster-cert", "cluster-key")
}

func (f *clusterFlags) isOn() bool { return f.embed || len(f.urls) > 0 }

// check returns the first mistake in the flags.
func (f *clusterFlags) check(scope string) error {
	if !f.isOn() {
		return f.refuse("needs --cluster or --cluster-url", "node", "region", "cluster-name", "cluster-listen",
			"cluster-join", "cluster-advertise", "cluster-price", "cluster-capacity",
			"cluster-client-uri", "cluster-rtt", "cluster-ca", "cluster-token-file")
	}
	if !f.embed {
		const why = "is for --cluster; --cluster-url names the servers"
		if err := f.refuse(why, "cluster-listen", "cluster-join"); err != nil {
			return err
		}
	}
	for _, join := range f.join {
		if err := bounds.Address("--cluster-join", join, "an address such as west1.example:6222"); err != nil {
			return err
		}
	}
	if scope != "one" {
		return fmt.Errorf("--scope: %q: must be one with --cluster", scope)
	}
	if f.advertise == "" {
		return errors.New("--cluster-advertise URL is required with --cluster and --cluster-url: other nodes have to " +
			"know where this relay is, for example moqt://west1.example")
	}
	if err := cluster.CheckURL("--cluster-advertise", f.advertise); err != nil {
		return err
	}
	if err := f.checkClients(); err != nil {
		return err
	}
	if f.region != "" {
		if err := cluster.CheckName("--region", f.region); err != nil {
			return err
		}
	}
	_, err := f.linkCapacity()
	return cmp.Or(
		err,
		bounds.Address("--cluster-listen", f.listen, "an address such as 127.0.0.1:6222"),
		f.checkEngine(),
		bounds.Check("--cluster-price", f.price, 0, cluster.MaxPrice),
		cluster.CheckName("--cluster-name", f.name), cluster.CheckName("--node", f.nodeName()))
}

// checkEngine checks the addresses of NATS servers.
func (f *clusterFlags) checkEngine() error {
	common := natsengine.Config{TLS: f.tls}
	if f.embed {
		return (&natsengine.EmbedConfig{Config: common, Listen: f.listen, Join: f.join}).Check()
	}
	return (&natsengine.DialConfig{Config: common, URLs: f.urls}).Check()
}

// checkClients checks the flags about clients that go to a nearer node.
func (f *clusterFlags) checkClients() error {
	switch {
	case f.clientURI != "":
		if err := cluster.CheckClientURL("--cluster-client-uri", f.clientURI); err != nil {
			return err
		}
	case f.rtts != "":
		return errors.New("--cluster-rtt: needs --cluster-client-uri: it is for clients nearer to another node")
	}
	if f.rtts != "" && !webclient.IsURL(f.rtts) {
		return fmt.Errorf("--cluster-rtt: %q: must be a URL such as http://127.0.0.1:9100", f.rtts)
	}
	return nil
}

// refuse returns an error about the first of some flags that the user has set.
func (f *clusterFlags) refuse(why string, names ...string) error {
	for _, name := range names {
		if f.all.Changed(name) {
			return fmt.Errorf("--%s: %s", name, why)
		}
	}
	return nil
}

// mutualTLS returns how nodes prove to each other who they are, or nil.
func (f *clusterFlags) mutualTLS() *transport.MutualTLS {
	if f.tls.CAFile == "" {
		return nil
	}
	return (*transport.MutualTLS)(&f.tls)
}

// nodeName returns --node, or else the first label of the host's name.
func (f *clusterFlags) nodeName() string {
	if f.node != "" {
		return f.node
	}
	host, _ := os.Hostname()
	label, _, _ := strings.Cut(host, ".")
	return label
}

// peers returns the addresses of the NATS servers that this node looks for.
func (f *clusterFlags) peers() []string {
	addrs := slices.Clone(f.join)
	for _, text := range f.urls {
		if u, err := url.Parse(text); err == nil {
			addrs = append(addrs, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")))
		}
	}
	return addrs
}

// clusterNode is this process as a node of a cluster. The methods of nil are for a relay without one.
type clusterNode struct{ cfg server.ClusterConfig }

// prepare does all that can fail before the relay becomes a node, or returns nil without the flags. Other nodes do not
// see it yet.
func (f *clusterFlags) prepare(env *cli.Environment, replaces bool) (*clusterNode, error) {
	if !f.isOn() {
		return nil, nil
	}
	token, err := f.token(env)
	if err != nil {
		return nil, err
	}
	capacity, err := f.linkCapacity()
	if err != nil {
		return nil, err
	}
	common := natsengine.Config{
		Cluster: f.name, Node: f.nodeName(), Token: token, TLS: f.tls, Logger: slog.Default(),
	}
	engine, err := f.engine(common, replaces)
	if err != nil {
		return nil, err
	}
	return &clusterNode{server.ClusterConfig{
		Engine: engine, Cluster: f.name, Node: common.Node, Region: f.region, URL: f.advertise, Price: f.price,
		Capacity: capacity, ClientURL: f.clientURI, RTTs: f.rtts,
	}}, nil
}

// join makes the relay a node. If it has replaced another process, it is too late to fail.
func (n *clusterNode) join(s *server.Server, replaced bool) error {
	if n == nil {
		return nil
	}
	err := s.JoinCluster(n.cfg)
	if err != nil && replaced {
		slog.Error("the relay is not in the cluster; start it again", "err", err)
		return nil
	}
	return err
}

// close is the reverse of prepare.
func (n *clusterNode) close() error {
	if n == nil {
		return nil
	}
	return n.cfg.Engine.Close()
}

// engine starts the engine, which carries routes. While this process replaces another, the address may not be free yet.
func (f *clusterFlags) engine(common natsengine.Config, replaces bool) (*natsengine.Engine, error) {
	if len(f.urls) > 0 {
		return natsengine.Dial(natsengine.DialConfig{Config: common, URLs: f.urls})
	}
	return natsengine.Embed(natsengine.EmbedConfig{
		Config: common, Listen: f.listen, Advertise: f.advertisedListen(), Join: f.join, Wait: replaces,
	})
}

// advertisedListen returns where other nodes' servers reach this one: at the host of --cluster-advertise if the server
// listens at all addresses.
func (f *clusterFlags) advertisedListen() string {
	host, port, err := net.SplitHostPort(f.listen)
	if ip := net.ParseIP(host); err != nil || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return ""
	}
	target, err := transport.ParseURL(f.advertise)
	if err != nil {
		return ""
	}
	name, _, err := net.SplitHostPort(target.Authority)
	if err != nil {
		name = target.Authority
	}
	return net.JoinHostPort(name, port)
}

// linkCapacity returns --cluster-capacity in bits per second, or 0.
func (f *clusterFlags) linkCapacity() (int, error) {
	if f.capacity == "" {
		return 0, nil
	}
	return parseBitRate("--cluster-capacity", f.capacity)
}

func (f *clusterFlags) token(env *cli.Environment) (string, error) {
	if f.tokenFile == "" {
		return env.Getenv("SLUICE_CLUSTER_TOKEN"), nil
	}
	token, err := files.Secret(f.tokenFile)
	if err != nil {
		err = fmt.Errorf("--cluster-token-file: %w", err)
	}
	return token, err
}
