package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/cli"
	"sluice/internal/service"
	"sluice/moqt"
	"sluice/server"
	"sluice/server/doctor"
	"sluice/transport"
)

// packagedConfig is where the package has the settings of its relay.
const packagedConfig = "/etc/sluice/relay.yaml"

func newDoctor(env *cli.Environment) *cobra.Command {
	var f relayFlags
	asJSON := false
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Say whether this machine is fit for a relay",
		Long: `Say whether this machine is fit for a relay with the same flags: the kernel and the fast path, whose
programs it loads and takes off, devices, socket buffers, ports, the firewall, the clock, limits, memory, the
certificate, the keys of tokens, and the relays and nodes that it is to reach. Each is fine, could be better, or is
wrong, with the command that mends it, and with what fails because of it. What it may not see, it says; root sees all.

Without flags, it takes the settings of the package, ` + packagedConfig + `, or if there are none, --dev.

It exits with 1 if something is wrong.`,
		Example: `  sluice doctor
  sluice doctor --config relay.yaml
  sluice doctor --dev --upstream moqt://origin.example --json | jq '.[] | select(.verdict == "wrong")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := f.assume(cmd.Flags())
			if err == nil {
				err = f.check()
			}
			if err != nil {
				return cli.AsUsage(cli.ExplainOrigin(cmd.Flags(), err))
			}
			return f.diagnose(cmd.Context(), env, asJSON)
		},
	}
	groups := f.register(cmd)
	groups.Add("Output", func(cmd *cobra.Command) { cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON") })
	groups.Show("Output", "json")
	return cmd
}

// assume takes the package's settings, or --dev, for a relay without flags.
func (f *relayFlags) assume(flags *pflag.FlagSet) error {
	if n := flags.NFlag(); n > 1 || n == 1 && !flags.Changed("json") {
		return nil
	}
	err := cli.ReadFlags(flags, packagedConfig)
	if errors.Is(err, fs.ErrNotExist) {
		f.dev, err = true, nil
	}
	return err
}

func (f *relayFlags) diagnose(ctx context.Context, env *cli.Environment, asJSON bool) error {
	_ = service.RaisePrivileges() // like the relay; the checks report capabilities that are missing
	c, err := f.patient(env.Getenv)
	if err != nil {
		return err
	}
	found := doctor.Examine(ctx, doctor.This(c), false)
	if asJSON {
		err = cli.WriteJSON(env.Stdout, found)
	} else {
		writeFindings(env.Stdout, found)
	}
	if n := len(wrongOf(found)); n > 0 && err == nil {
		return fmt.Errorf("findings that are wrong: %d", n)
	}
	return err
}

// warnUnfit logs the findings that are wrong, of the checks that ask neither the network nor the kernel.
func (f *relayFlags) warnUnfit(ctx context.Context, getenv func(string) string) {
	c, err := f.patient(getenv)
	if err != nil {
		return // the relay has said so
	}
	if wrong := wrongOf(doctor.Examine(ctx, doctor.This(c), true)); len(wrong) > 0 {
		slog.Warn("this machine is not fit; sluice doctor says more", "wrong", wrong)
	}
}

func wrongOf(found []doctor.Finding) (texts []string) {
	for _, x := range found {
		if x.Verdict == doctor.Wrong {
			texts = append(texts, x.Check+": "+x.Text)
		}
	}
	return texts
}

// patient describes the relay to the doctor.
func (f *relayFlags) patient(getenv func(string) string) (c doctor.Config, err error) {
	ports, err := portsOf(f)
	if err != nil {
		return c, err
	}
	upstream, err := f.upstream.config(getenv)
	if err != nil {
		return c, err
	}
	c = doctor.Config{
		Ports: ports, FastPath: string(f.cfg.FastPath.Mode),
		CertFile: f.cfg.Transport.CertFile, KeyFile: f.cfg.Transport.KeyFile, ACME: f.acme.Names,
		CacheBytes: uint64(f.cacheMiB) << 20, MaxSessions: uint64(f.cfg.Relay.MaxSessions),
		Cluster: f.cluster.peers(),
	}
	if f.auth.jwks+f.auth.catKeys != "" {
		c.ReadKeys = f.auth.readKeys
	}
	for _, r := range upstream.Routes {
		c.Upstreams = append(c.Upstreams, r.URLs...)
	}
	upstream.Transport.Protocols = moqt.ALPNs()
	c.Dial = func(ctx context.Context, url string) (transport.Conn, error) {
		return transport.Dial(ctx, url, upstream.Transport)
	}
	fast := f.cfg.FastPath
	fast.Dials, fast.Workers, fast.RTPPort = f.cluster.isOn() || len(c.Upstreams) > 0, 0, f.rtsp.rtpPort()
	fast.MaxTracks = f.cfg.Relay.MaxTracks
	c.LoadFastPath = func() error { return server.TryFastPath(fast, net.UDPAddrFromAddrPort(c.Ports[0].AddrPort)) }
	c.Devices, _ = server.FastPathDevices(fast, c.Ports[0].Addr()) // the check of the fast path says why
	return c, nil
}

// portsOf returns where others connect to a relay. The first is --listen.
func portsOf(f *relayFlags) (all []doctor.Port, err error) {
	add := func(flag, network, address, effect string) {
		if address == "" {
			return
		}
		a, mistake := net.ResolveTCPAddr("tcp", address) // UDP ports have the same form
		if mistake != nil {
			err = cmp.Or(err, fmt.Errorf("%s: %w", flag, mistake))
			return
		}
		all = append(all, doctor.Port{Network: network, AddrPort: addrPort(a.IP, a.Port), Effect: effect})
	}
	add("--listen", "udp", f.cfg.Listen, "no client connects")
	const noPage = "the web page is not reached"
	if f.web.value == "on" {
		add("--listen", "tcp", f.cfg.Listen, noPage)
	} else if !f.web.isOff() {
		add("--web", "tcp", f.web.value, noPage)
	}
	if f.acme.isOn() {
		add("--acme-http", "tcp", f.acme.http, "the authority does not look here")
	}
	const noRTSP, noRTP = "no RTSP client connects", "no RTSP client sends media over UDP"
	if f.rtsp.address != "" {
		add("--rtsp", "tcp", f.rtsp.address, noRTSP)
		add("--rtsp-rtp", "udp", f.rtsp.rtpAddress, noRTP)
	}
	if f.rtsp.tlsAddress != "" {
		add("--rtsps", "tcp", f.rtsp.tlsAddress, noRTSP)
		add("--rtsps-rtp", "udp", f.rtsp.srtpAddress, noRTP)
	}
	if f.cluster.embed {
		add("--cluster-listen", "tcp", f.cluster.listen, "other nodes do not find this one")
	}
	add("--admin", "tcp", f.admin, "no operator gets an answer")
	return all, err
}

func addrPort(ip net.IP, port int) netip.AddrPort {
	addr, ok := netip.AddrFromSlice(ip)
	if !ok {
		addr = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(port))
}

func writeFindings(w io.Writer, found []doctor.Finding) {
	for _, x := range found {
		fmt.Fprintf(w, "%-8s %-13s %s\n", x.Verdict, x.Check, x.Text)
		for _, more := range []struct{ label, text string }{{"effect", x.Effect}, {"do", x.Advice}} {
			if more.text != "" {
				fmt.Fprintf(w, "%22s %s: %s\n", "", more.label, more.text)
			}
		}
	}
}
