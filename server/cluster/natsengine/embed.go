package natsengine

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// startTimeout is how long the server may take to start.
	startTimeout = 10 * time.Second
	// pingInterval and maxPings find connections that are dead without a FIN: after 6 s.
	pingInterval = 2 * time.Second
	maxPings     = 2
	// user is the name that servers use for each other, with the token as the password.
	user = "sluice"
	// reportEach is after how many failed attempts to connect the log mentions another one.
	reportEach = 600
	// rereadInterval is how often a server looks whether its authority has changed.
	rereadInterval = 10 * time.Second
	// retryInterval is how often a server tries to start whose address is in use.
	retryInterval = 250 * time.Millisecond
)

// EmbedConfig is the configuration of an embedded server.
type EmbedConfig struct {
	Config
	Listen    string   // TCP address for the servers of other nodes
	Advertise string   // host:port at which they reach it. Default: Listen, unless that is all addresses
	Join      []string // host:port of other nodes; one has to answer for all to be found
	// Wait: the process that this one replaces may still have the address. The server starts when it is free.
	Wait bool

	secret string        // of the clients of the server; set by Embed
	reread time.Duration // how often to look whether the authority has changed. Default: rereadInterval
}

// onlyOwn lets only clients of this process in.
type onlyOwn struct{ secret string }

// Check implements server.Authentication.
func (o onlyOwn) Check(c server.ClientAuthentication) bool {
	return subtle.ConstantTimeCompare([]byte(c.GetOpts().Token), []byte(o.secret)) == 1
}

// Embed starts a NATS server in this process, which looks for the servers of the other nodes as long as it runs.
func Embed(cfg EmbedConfig) (*Engine, error) {
	cfg.secret, cfg.reread = rand.Text(), cmp.Or(cfg.reread, rereadInterval)
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	e := newEngine(cfg.Logger)
	if err = e.start(&cfg, opts); err == nil {
		return e, nil
	}
	if !cfg.Wait || !errors.Is(err, syscall.EADDRINUSE) {
		return nil, err
	}
	e.running.Go(func() { e.startLater(&cfg, opts) })
	return e, nil
}

// Check returns the first mistake in the addresses.
func (c *EmbedConfig) Check() error {
	if err := c.TLS.needed("--cluster-listen", c.Listen); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(c.Listen)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("--cluster-listen: %s: must have a port between 1 and 65535", c.Listen)
	}
	for _, address := range c.Join {
		if err := c.TLS.needed("--cluster-join", address); err != nil {
			return err
		}
	}
	return nil
}

// options returns the configuration of the server.
func (c *EmbedConfig) options() (*server.Options, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	host, portText, _ := net.SplitHostPort(c.Listen)
	port, _ := strconv.Atoi(portText)
	tlsConfig, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	opts := &server.Options{
		ServerName: c.Node, NoSigs: true, NoSystemAccount: true,
		// A server that is away is tried once a second, and mentioned in the log once in ten minutes.
		ConnectErrorReports: reportEach, ReconnectErrorReports: reportEach,
		// A server without a port for clients does not listen for other servers either. So it has one, which lets in
		// only who knows a secret that this process has made.
		Host: "127.0.0.1", Port: server.RANDOM_PORT, CustomClientAuthentication: onlyOwn{c.secret},
		Cluster: server.ClusterOpts{
			Name: c.Cluster, Host: host, Port: port, Advertise: c.advertised(host), NoAdvertise: true,
			PoolSize: -1,
			// Servers that were found by others are tried again as long as those that Join names.
			ConnectRetries: math.MaxInt32,
			Username:       user, Password: c.Token, TLSConfig: tlsConfig, TLSTimeout: 5,
			PingInterval: pingInterval, MaxPingsOut: maxPings,
		},
	}
	if c.Token == "" {
		opts.Cluster.Username = ""
	}
	for _, address := range c.Join {
		u := &url.URL{Scheme: "nats-route", Host: address}
		if c.Token != "" {
			u.User = url.UserPassword(user, c.Token)
		}
		opts.Routes = append(opts.Routes, u)
	}
	return opts, nil
}

// advertised returns the address of this server that other servers tell each other. Without it they would take the
// address that its connections come from.
func (c *EmbedConfig) advertised(host string) string {
	if ip := net.ParseIP(host); c.Advertise == "" && host != "" && !ip.IsUnspecified() {
		return c.Listen
	}
	return c.Advertise
}

// probe returns an error if the server could not listen on an address. The server itself only writes that to its log.
func probe(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--cluster-listen: %w: choose another address, or end the process that uses it", err)
	}
	return l.Close()
}
