package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/rtsp"
	"sluice/server"
)

// rtspFlags are the flags of RTSP.
type rtspFlags struct {
	address, tlsAddress, rtpAddress, srtpAddress string
	idle                                         time.Duration
	memoryMiB                                    int
}

func (f *rtspFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "rtsp", "",
		"TCP `address` for RTSP clients, such as :8554; their streams are MoQ broadcasts as well, and they "+
			"play MoQ broadcasts (default: none)")
	flags.StringVar(&f.tlsAddress, "rtsps", "",
		"TCP `address` for RTSP over TLS with the relay's certificate, such as :8322 (default: none)")
	flags.StringVar(&f.rtpAddress, "rtsp-rtp", ":8000", "UDP `address` for RTP of --rtsp, with an even port; RTCP has "+
		"the next one; '' makes clients use their TCP connections")
	flags.StringVar(&f.srtpAddress, "rtsps-rtp", ":8004", "UDP `address` for SRTP of --rtsps, with an even port; "+
		"SRTCP has the next one; '' makes clients use their TLS connections")
	flags.DurationVar(&f.idle, "rtsp-idle-timeout", rtsp.DefaultIdleTimeout,
		"end connections and players of RTSP that are silent for this `duration`, at least 10s; players are told to "+
			"show 5s earlier that they are there")
	flags.IntVar(&f.memoryMiB, "rtsp-memory", rtsp.DefaultMemory>>20,
		"take at most this many `MiB` for broadcasts between RTSP and MoQ; one address may have as much as "+
			"is free")
}

func (f *rtspFlags) isOn() bool { return f.address+f.tlsAddress != "" }

// rtpPort returns the UDP port for RTP, or 0.
func (f *rtspFlags) rtpPort() uint16 {
	if f.address == "" {
		return 0
	}
	a, _ := net.ResolveUDPAddr("udp", f.rtpAddress)
	if a == nil {
		return 0 // the RTSP server explains the error
	}
	return a.AddrPort().Port()
}

// check returns the first mistake in the flags.
func (f *rtspFlags) check(scope string) error {
	for _, a := range []struct{ flag, address string }{
		{"--rtsp", f.address}, {"--rtsps", f.tlsAddress}, {"--rtsp-rtp", f.rtpAddress},
		{"--rtsps-rtp", f.srtpAddress},
	} {
		if a.address == "" {
			continue
		}
		if err := bounds.Address(a.flag, a.address, "an address such as :8554"); err != nil {
			return err
		}
	}
	err := errors.Join(f.checkPorts(), bounds.AtLeast("--rtsp-idle-timeout", f.idle, 10*time.Second),
		bounds.Check("--rtsp-memory", f.memoryMiB, rtsp.MinMemory>>20, maxMiB))
	if err != nil {
		return err
	}
	if f.isOn() && scope == "url" {
		return errors.New("--scope: url: must be one or path with --rtsp and --rtsps: RTSP broadcasts have a " +
			"path only, whatever host a client names")
	}
	return nil
}

// checkPorts returns the first mistake in the UDP ports.
func (f *rtspFlags) checkPorts() error {
	for _, a := range []struct{ flag, address string }{{"--rtsp-rtp", f.rtpAddress}, {"--rtsps-rtp", f.srtpAddress}} {
		if a.address == "" {
			continue
		}
		_, text, _ := net.SplitHostPort(a.address) // check has looked at it
		if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 || port%2 != 0 {
			return fmt.Errorf("%s: %q: must have an even port from 2 to 65534: RTCP has the next one", a.flag,
				a.address)
		}
	}
	if f.address != "" && f.tlsAddress != "" && samePort(f.rtpAddress, f.srtpAddress) {
		return fmt.Errorf("--rtsps-rtp: %q: must be another port than --rtsp-rtp has, or '' for no SRTP",
			f.srtpAddress)
	}
	return nil
}

// samePort reports whether two addresses cannot be opened both.
func samePort(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	return portA != "" && portA == portB && (hostA == hostB || hostA == "" || hostB == "")
}

// serveRTSP serves RTSP clients. It returns nil if no flag asks for it.
func (f *relayFlags) serveRTSP(s *server.Server) (*rtsp.Server, error) {
	if !f.rtsp.isOn() {
		return nil, nil
	}
	listen := listenConfig(f.control != "")
	cfg := rtsp.Config{
		Relay: s.Relay(), Dial: s.DialFor, DialOwn: s.DialOwn, FastPath: s.FastPath(),
		Address: f.rtsp.address, TLSAddress: f.rtsp.tlsAddress, Certificate: s.Certificate,
		RTPAddress: f.rtsp.rtpAddress, SRTPAddress: f.rtsp.srtpAddress, Listen: &listen,
		IdleTimeout: f.rtsp.idle, Memory: int64(f.rtsp.memoryMiB) << 20, KeepAll: f.drop == "none",
		Logger: slog.Default(),
	}
	if rule := s.Rule(); rule != nil {
		cfg.Rule = rule
	}
	r, err := rtsp.Start(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w; choose other addresses with --rtsp, --rtsps, --rtsp-rtp and --rtsps-rtp", err)
	}
	return r, nil
}

// companions are the servers beside the relay's own port. Each may be nil.
type companions struct {
	page     *webPage
	stopACME func()
	rtsp     *rtsp.Server
}

// serveCompanions opens the ports of the web page, of certificate authorities and of RTSP.
func (f *relayFlags) serveCompanions(s *server.Server) (c companions, err error) {
	if c.page, err = f.serveWeb(s); err != nil {
		return c, err
	}
	if c.stopACME, err = f.serveACME(c.page); err == nil {
		c.rtsp, err = f.serveRTSP(s)
	}
	if err != nil {
		return c, errors.Join(err, c.close())
	}
	return c, nil
}

func (c companions) metrics() []prometheus.Collector {
	all := c.page.metrics()
	if c.rtsp != nil {
		all = append(all, c.rtsp)
	}
	return all
}

func (c companions) close() error {
	if c.stopACME != nil {
		c.stopACME()
	}
	return errors.Join(c.page.close(), c.rtsp.Close())
}

// greet prints how to reach the servers.
func (c companions) greet(w io.Writer) {
	if c.page != nil {
		fmt.Fprintf(w, "  web page      %s\n", c.page.url())
	}
	if c.rtsp != nil {
		greetRTSP(w, "RTSP", "rtsp", c.rtsp.Addr())
		greetRTSP(w, "RTSPS", "rtsps", c.rtsp.TLSAddr())
	}
}

func greetRTSP(w io.Writer, name, scheme string, a net.Addr) {
	if tcp, ok := a.(*net.TCPAddr); ok {
		fmt.Fprintf(w, "  %-13s %s://%s/\n", name, scheme, net.JoinHostPort(hostFor(tcp.IP), fmt.Sprint(tcp.Port)))
	}
}
