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

// maxUDPPayloadSize is what leaves room for the copies of a peer's packets, see [fastpath.HopGrowth].
func (s *Server) maxUDPPayloadSize(dialed bool) int {
	if dialed {
		return fastpath.MaxUDPPayloadSize + fastpath.HopGrowth
	}
	upstream, announced := s.keepers.maxUDPPayloadSize()
	if !announced {
		return fastpath.MaxUDPPayloadSize
	}
	return max(upstream-fastpath.HopGrowth, minUDPPayloadSize)
}

// FastPath returns the kernel's programs, or nil if they are not attached.
func (s *Server) FastPath() *fastpath.FastPath { return s.fastPath }

// Rule returns the operator's rule, or nil.
func (s *Server) Rule() *fastpath.Rule { return s.cfg.Rule }

// awaitKernel returns when sockets have the packets whose copies the kernel may have sent by now. It returns false if
// the kernel sends none.
func (s *Server) awaitKernel() bool {
	if s.fastPath == nil {
		return false
	}
	s.fastPath.AwaitRuns()
	return true
}

// HasFastPath reports whether the kernel's programs are attached.
func (s *Server) HasFastPath() bool { return s.fastPath != nil }

func (s *Server) closeFastPath() error {
	if s.fastPath == nil {
		return nil
	}
	return s.fastPath.Close()
}

var fastPathReasons = prometheus.NewDesc("sluice_fastpath_total",
	"Packets from publishers, media frames in them and copies for subscribers, by what the kernel did with them.",
	[]string{"reason"}, nil)

func (s *Server) collectFastPath(ch chan<- prometheus.Metric) {
	if s.fastPath == nil {
		return
	}
	counts, err := s.fastPath.Counts()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(fastPathReasons, err)
		return
	}
	for reason, n := range counts {
		ch <- prometheus.MustNewConstMetric(fastPathReasons, prometheus.CounterValue, float64(n), reason)
	}
}
