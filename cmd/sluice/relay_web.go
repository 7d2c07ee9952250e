package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/moqt"
	"sluice/server"
	"sluice/transport"
	"sluice/web"
)

// webFlag is the flag of the web page.
type webFlag struct {
	value string
	given bool // by the user: the relay does not start without the page
}

func (f *webFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.value, "web", "on",
		"web page to watch and to publish: on (HTTPS at the TCP port with the number of the UDP port), off, or "+
			"another TCP `address`")
}

func (f *webFlag) isOff() bool { return f.value == "off" }

// check returns the mistake in the flag.
func (f *webFlag) check() error {
	if f.value == "on" || f.isOff() {
		return nil
	}
	return bounds.Address("--web", f.value, "on, off or an address such as :8443")
}

// address returns the TCP address of the page of a relay at a UDP address.
func (f *webFlag) address(udp *net.UDPAddr) string {
	if f.value != "on" {
		return f.value
	}
	return net.JoinHostPort(hostOrAny(udp.IP), fmt.Sprint(udp.Port))
}

// hostOrAny returns the host of a listening address, which is empty for all addresses of the machine.
func hostOrAny(ip net.IP) string {
	if ip.IsUnspecified() || ip == nil {
		return ""
	}
	return ip.String()
}

// addSite configures a server to have a page. dev is the certificate of --dev, or nil. How many watch is told only
// where anybody may watch.
func (f *relayFlags) addSite(c *server.Config, dev *tls.Certificate) {
	if f.web.isOff() {
		return
	}
	open := c.Relay.Authorizer == nil
	c.NewHandler = func(s *server.Server) (http.Handler, error) {
		cfg := web.Config{
			Relay:    web.Relay{Port: s.Addr().Port, Version: cli.VersionText("sluice")},
			SamePort: f.web.value == "on",
		}
		if f.drainURI != "" {
			cfg.Other, _ = transport.ParseURL(f.drainURI) // check has accepted it
		}
		if dev != nil {
			cfg.Certificate = fmt.Sprintf("%x", sha256.Sum256(dev.Certificate[0]))
		}
		if open {
			cfg.CountViewers = func(authority string, ns moqt.Namespace) int {
				return s.Relay().Viewers(ns, authority, "/")
			}
		}
		return f.inside.newSite(cfg, s)
	}
}

// serveWeb serves the page over TCP. It returns nil if there is none.
func (f *relayFlags) serveWeb(s *server.Server) (*webPage, error) {
	if s.Handler() == nil {
		return nil, nil
	}
	l, err := listenWeb(f.web.address(s.Addr()), f.control != "")
	if err != nil {
		if f.web.given {
			return nil, fmt.Errorf("--web: %w; choose another address, or --web off", err)
		}
		slog.Warn("no web page: its port cannot be used; --web chooses another one, or off", "err", err)
		return nil, nil
	}
	page := web.Serve(l, web.ServerConfig{
		Site: s.Handler(), Certificate: s.Certificate, Challenges: f.acme.isOn(), Plain: f.dev, Logger: slog.Default(),
	})
	return &webPage{Server: page, plain: f.dev && reachesLoopback(page.Addr().IP)}, nil
}

// listenWeb opens a TCP port: one that another process of the relay can share until this one ends, if the relay can be
// replaced.
func listenWeb(addr string, shared bool) (net.Listener, error) {
	cfg := listenConfig(shared)
	return cfg.Listen(context.Background(), "tcp", addr)
}

func listenConfig(shared bool) (cfg net.ListenConfig) {
	if shared {
		cfg.Control = func(_, _ string, c syscall.RawConn) (err error) {
			return errors.Join(c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
			}), err)
		}
	}
	return cfg
}

// webPage is the page as it is served over TCP. On nil, its methods do nothing.
type webPage struct {
	*web.Server
	plain bool // http:// works on this machine
}

func reachesLoopback(ip net.IP) bool { return ip == nil || ip.IsUnspecified() || ip.IsLoopback() }

// url returns where to open the page, from this machine.
func (p *webPage) url() string {
	addr, scheme := p.Addr(), "https"
	if p.plain {
		scheme = "http"
	}
	return scheme + "://" + strings.TrimSuffix(net.JoinHostPort(hostFor(addr.IP), fmt.Sprint(addr.Port)), ":443") + "/"
}

func (p *webPage) metrics() []prometheus.Collector {
	if p == nil {
		return nil
	}
	return []prometheus.Collector{p.Server}
}

func (p *webPage) close() error {
	if p == nil {
		return nil
	}
	return p.Close()
}
