package main

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

// fastPathConfig says whether the kernel is to forward media.
type fastPathConfig struct {
	Mode    string   // auto, on or off
	Devices []string // empty: those that lead to the listening address
	Copies  int      // that a packet may cause
}

// openFastPath loads and attaches the programs. With auto it returns nil, and logs the reason, if that is not possible.
func openFastPath(cfg fastPathConfig, addr *net.UDPAddr, log *slog.Logger) (*fastpath.FastPath, error) {
	if cfg.Mode == "off" {
		return nil, nil
	}
	f, err := attachFastPath(cfg, addr, log)
	switch {
	case err == nil:
		return f, nil
	case cfg.Mode == "on":
		return nil, fmt.Errorf("--fastpath on: %w", err)
	}
	log.Info("media is sent without the kernel's fast path", "reason", err)
	return nil, nil
}

func attachFastPath(cfg fastPathConfig, addr *net.UDPAddr, log *slog.Logger) (*fastpath.FastPath, error) {
	devices, err := fastPathDevices(cfg.Devices, addr.AddrPort().Addr())
	if err != nil {
		return nil, err
	}
	f, err := fastpath.New(fastpath.Settings{Port: uint16(addr.Port), ConnectionIDLen: transport.ConnectionIDLength, MaxCopies: cfg.Copies}, log)
	if err != nil {
		return nil, err
	}
	if err := f.Attach(devices...); err != nil {
		f.Close()
		return nil, err
	}
	debug.FreeOSMemory() // the kernel's type information, which nobody needs any more, is most of the heap
	log.Info("media is forwarded in the kernel", "devices", len(devices))
	return f, nil
}

func fastPathDevices(names []string, listen netip.Addr) (devices []int, err error) {
	if len(names) == 0 {
		return fastpath.Devices(listen.Unmap())
	}
	for _, n := range names {
		d, err := net.InterfaceByName(n)
		if err != nil {
			return nil, fmt.Errorf("--device %s: %w", n, err)
		}
		devices = append(devices, d.Index)
	}
	return devices, nil
}

func (s *relayServer) closeFastPath() error {
	if s.fastPath == nil {
		return nil
	}
	return s.fastPath.Close()
}

var fastPathReasons = prometheus.NewDesc("sluice_fastpath_total",
	"Packets from publishers, media frames in them and copies for subscribers, by what the kernel did with them.", []string{"reason"}, nil)

func (s *relayServer) collectFastPath(ch chan<- prometheus.Metric) {
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
