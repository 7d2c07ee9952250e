package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"sluice/internal/bounds"
)

// Names of hosts; subscribers are sub1, sub2, …
const (
	PublisherName = "pub"
	RelayName     = "relay"
	NetworkName   = "net" // the host in the middle, which all links lead to
)

// SubscriberName returns the name of the i-th subscriber, counted from 1.
func SubscriberName(i int) string { return "sub" + strconv.Itoa(i) }

// MaxSubscribers is below the number of ports of a kernel bridge, less the publisher's and the relay's.
const MaxSubscribers = 1000

// Topology is what to build: a publisher, a relay and subscribers, each in a network namespace of its own, joined by
// one more namespace with a bridge for each side of the relay.
//
//	pub ── uplink ──[bridge]── relay:up   relay:down ──[bridge]── downlink ── sub1, sub2, …
type Topology struct {
	Subscribers int        // at most MaxSubscribers
	Uplink      LinkConfig // of the publisher
	Downlink    LinkConfig // of each subscriber

	// OneDevice gives the relay one device for both sides, named up.
	OneDevice bool
	// SoftwareChecksums makes every host compute UDP checksums before a packet reaches its device, as for devices
	// without transmit checksum offload.
	SoftwareChecksums bool
	// Seed of all random decisions; the same seed and the same packets give the same losses. 0 is 1.
	Seed uint64
}

// LinkConfig is the conditions of a link in both directions.
type LinkConfig struct {
	ToHost, FromHost Conditions
}

// Symmetric returns the same conditions for both directions.
func Symmetric(c Conditions) LinkConfig { return LinkConfig{ToHost: c, FromHost: c} }

func (c LinkConfig) validate() error {
	if err := c.ToHost.validate(); err != nil {
		return fmt.Errorf("to the host: %w", err)
	}
	if err := c.FromHost.validate(); err != nil {
		return fmt.Errorf("from the host: %w", err)
	}
	return nil
}

func (t Topology) validate() error {
	if err := bounds.Check("subscribers", t.Subscribers, 0, MaxSubscribers); err != nil {
		return err
	}
	var uplink, downlink error
	if err := t.Uplink.validate(); err != nil {
		uplink = fmt.Errorf("uplink %w", err)
	}
	if err := t.Downlink.validate(); err != nil {
		downlink = fmt.Errorf("downlink %w", err)
	}
	return errors.Join(uplink, downlink)
}

func (t Topology) seed() uint64 {
	if t.Seed == 0 {
		return 1
	}
	return t.Seed
}

// Addresses: the ranges for benchmarks of RFC 2544 and RFC 5180. No two labs share a namespace, so all use the same.
var (
	uplinkNet    = subnet{netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("2001:2:0:1::/64")}
	downlinkNet  = subnet{netip.MustParsePrefix("198.19.0.0/16"), netip.MustParsePrefix("2001:2:0:2::/64")}
	relayNum     = uint16(1)
	publisherNum = uint16(2)
)

// subscriberNum returns the host number of a subscriber: sub1 is .1.1 and ::101.
func subscriberNum(i int) uint16 { return uint16(256 + i) }

type subnet struct{ v4, v6 netip.Prefix }

// address returns the addresses of host n with the length of the subnet's prefix.
func (s subnet) address(n uint16) (v4, v6 netip.Prefix) {
	a4, a6 := s.v4.Addr().As4(), s.v6.Addr().As16()
	a4[2], a4[3] = byte(n>>8), byte(n)
	a6[14], a6[15] = byte(n>>8), byte(n)
	return netip.PrefixFrom(netip.AddrFrom4(a4), s.v4.Bits()), netip.PrefixFrom(netip.AddrFrom16(a6), s.v6.Bits())
}
