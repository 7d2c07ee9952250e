package rtt

import (
	"math/bits"
	"os"

	"golang.org/x/sys/unix"

	"sluice/rtt/bpf"
)

// errCPUOffline is what running a program on a CPU that is possible but not there fails with.
const errCPUOffline = unix.ENXIO

// eventBatch is how many events a CPU collects before it hands them over.
const eventBatch = 16

// settings translates the configuration for the kernel.
func (c *Config) settings() bpf.MonitorSettings {
	return bpf.MonitorSettings{
		StampInterval: uint64(max(c.RateLimit, 0)),
		RttRate:       uint64(c.RTTRate * 1024),
		Tcp:           flag(c.TCP),
		Icmp:          flag(c.ICMP),
		Dns:           flag(c.DNS),
		Quic:          flag(c.QUIC),
		Syn:           flag(c.IncludeSYN),
		Local:         flag(c.IncludeLocal),
		Smoothed:      flag(c.RTTType == RTTSmoothed),
		Merge:         flag(c.MergeInterfaces),
		Vlans:         flag(c.Hook != HookXDP), // a device may remove the tag before XDP, and never before TC
		Events:        1,
		Batch:         eventBatch,
	}
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// maxLocalAddresses are more than hosts have; those beyond are measured like others.
const maxLocalAddresses = 4096

func (c *Config) limits() bpf.Limits {
	ring := max(c.RingBytes, os.Getpagesize())
	return bpf.Limits{
		Flows:          uint32(c.MaxFlows),
		Stamps:         uint32(c.MaxStamps),
		Queries:        uint32(c.MaxQueries),
		LocalAddresses: maxLocalAddresses,
		RingBytes:      1 << bits.Len(uint(ring-1)),
	}
}
