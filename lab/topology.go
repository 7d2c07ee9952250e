package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"sluice/internal/bounds"
)

// Names of hosts; subscribers are sub1, sub2, …, and the relays after the first relay2, relay3, …
const (
	PublisherName = "pub"
	RelayName     = "relay"
	NetworkName   = "net" // the host in the middle, which all links lead to
)

// SubscriberName returns the name of the i-th subscriber, counted from 1.
func SubscriberName(i int) string { return "sub" + strconv.Itoa(i) }

// RelayHostName returns the name of the i-th relay, counted from 1.
func RelayHostName(i int) string {
	if i == 1 {
		return RelayName
	}
	return RelayName + strconv.Itoa(i)
}

// MaxSubscribers and MaxRelays together are below the number of ports of a kernel bridge, less the publisher's.
const (
	MaxSubscribers = 1000
	MaxRelays      = 16
)

// Topology is the lab to build: a publisher, relays and subscribers, each in a network namespace of its own, joined by
// one more namespace with a bridge for each side of the relays.
//
//	pub ── uplink ──[bridge]── relay:up   relay:down ──[bridge]── downlink ── sub1, sub2, …
//
// Several relays are side by side. They reach each other through their devices up, and the publisher and each
// subscriber reach all of them: which relay gets media from which one is up to the processes.
type Topology struct {
	Relays      int        // at most MaxRelays; 0 is 1
	Subscribers int        // at most MaxSubscribers
	Uplink      Conditions // of the publisher's link, in both directions
	Backbone    Conditions // of the device up of each relay after the first: two links between two of these
	Downlink    Conditions // of each subscriber

	// OneDevice gives the relay one device for both sides, named up.
	OneDevice bool
	// SoftwareChecksums makes every host compute UDP checksums before a packet reaches its device, as for devices
	// without transmit checksum offload.
	SoftwareChecksums bool
	// Seed of all random decisions; the same seed and the same packets give the same losses. 0 is 1.
	Seed uint64
}

func (t Topology) validate() error {
	errs := []error{
		bounds.Check("relays", t.Relays, 0, MaxRelays), bounds.Check("subscribers", t.Subscribers, 0, MaxSubscribers),
	}
	for _, link := range []struct {
		name       string
		conditions Conditions
	}{{"uplink", t.Uplink}, {"backbone", t.Backbone}, {"downlink", t.Downlink}} {
		if err := link.conditions.validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", link.name, err))
		}
	}
	return errors.Join(errs...)
}

// Addresses: the ranges for benchmarks of RFC 2544 and RFC 5180. No two labs share a namespace, so all use the same.
var (
	uplinkNet    = subnet{netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("2001:2:0:1::/64")}
	downlinkNet  = subnet{netip.MustParsePrefix("198.19.0.0/16"), netip.MustParsePrefix("2001:2:0:2::/64")}
	publisherNum = uint16(2)
)

// relayNum returns the host number of a relay: relay is .0.1, relay2 is .0.3.
func relayNum(i int) uint16 {
	if i == 1 {
		return 1
	}
	return uint16(i + 1)
}

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
