package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/fastpath"
	"sluice/transport"
)

// FastPathError is why Listen fails with FastPathOn.
type FastPathError struct{ Err error }

func (e *FastPathError) Error() string { return fmt.Sprintf("fast path: %v", e.Err) }
func (e *FastPathError) Unwrap() error { return e.Err }

// openFastPath loads the kernel's programs and attaches them. Where that is not possible it returns a FastPathError;
// with FastPathAuto it logs the reason and returns nil.
func openFastPath(
	cfg FastPathConfig, rule *fastpath.Rule, addr *net.UDPAddr, log *slog.Logger,
) (*fastpath.FastPath, error) {
	if cfg.Mode == FastPathOff {
		return nil, nil
	}
	if cfg.Open != nil {
		return cfg.Open(addr, log)
	}
	f, err := attachFastPath(cfg, rule, addr, log)
	switch {
	case err == nil:
		return f, nil
	case cfg.Mode == FastPathOn:
		return nil, &FastPathError{err}
	}
	log.Info("the fast path is off: user space sends all media", "reason", err)
	return nil, nil
}

func attachFastPath(
	cfg FastPathConfig, rule *fastpath.Rule, addr *net.UDPAddr, log *slog.Logger,
) (*fastpath.FastPath, error) {
	devices, err := fastPathDevices(cfg, addr.AddrPort().Addr())
	if err != nil {
		return nil, err
	}
	f, err := fastpath.New(fastpath.Settings{
		Port: uint16(addr.Port), RTPPort: cfg.RTPPort, ConnectionIDLen: transport.ConnectionIDLength,
		MaxCopies: cfg.MaxCopies, Workers: cfg.Workers, MaxConnections: cfg.MaxConnections, MaxTracks: cfg.MaxTracks,
		MaxSubgroups: cfg.MaxSubgroups, MaxObjects: cfg.MaxObjects, Rule: rule,
	}, log)
	if err != nil {
		return nil, err
	}
	if err := f.Attach(devices...); err != nil {
		f.Close()
		return nil, err
	}
	debug.FreeOSMemory() // most of the heap is the kernel's type information, which is not used any more
	log.Info("the fast path is on: the kernel forwards media", "devices", len(devices))
	return f, nil
}

// TryFastPath loads and attaches the kernel's programs as Listen does, and takes them off.
func TryFastPath(cfg FastPathConfig, addr *net.UDPAddr) error {
	f, err := attachFastPath(cfg, nil, addr, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return f.Close()
}

// FastPathDevices names the devices to which the kernel's programs would be attached.
func FastPathDevices(cfg FastPathConfig, listen netip.Addr) (names []string, err error) {
	devices, err := fastPathDevices(cfg, listen)
	for _, index := range devices {
		if d, err := net.InterfaceByIndex(index); err == nil {
			names = append(names, d.Name)
		}
	}
	return names, err
}

func fastPathDevices(cfg FastPathConfig, listen netip.Addr) (devices []int, err error) {
	switch {
	case len(cfg.Devices) > 0:
	case cfg.Dials:
		return fastpath.Devices(netip.IPv6Unspecified())
	default:
		return fastpath.Devices(listen.Unmap())
	}
	for _, n := range cfg.Devices {
		d, err := net.InterfaceByName(n)
		if err != nil {
			return nil, fmt.Errorf("network device %s: %w", n, err)
		}
		devices = append(devices, d.Index)
	}
	return devices, nil
}

// minUDPPayloadSize is the least that a peer may be told (RFC 9000 §18.2).
const minUDPPayloadSize = 1200

// kernel is the fast path, if there is one.
type kernel struct{ *fastpath.FastPath }

// await returns when sockets have the packets whose copies the kernel may have sent by now. It returns false if the
// kernel sends none.
func (k kernel) await() bool {
	if k.FastPath != nil {
		k.AwaitRuns()
	}
	return k.FastPath != nil
}

// counts returns what the kernel has done, by reason.
func (k kernel) counts() (map[string]uint64, error) {
	if k.FastPath == nil {
		return nil, nil
	}
	return k.Counts()
}

func (k kernel) close() error {
	if k.FastPath == nil {
		return nil
	}
	return k.Close()
}

var fastPathReasons = prometheus.NewDesc("sluice_fastpath_total",
	"Packets from publishers, media frames in them and copies for subscribers, by what the kernel did with them.",
	[]string{"reason"}, nil)

func (k kernel) collect(ch chan<- prometheus.Metric) {
	counts, err := k.counts()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(fastPathReasons, err)
	}
	for reason, n := range counts {
		ch <- prometheus.MustNewConstMetric(fastPathReasons, prometheus.CounterValue, float64(n), reason)
	}
}
