package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"sluice/lab/bpf"
	"sluice/lab/netns"
	"sluice/lab/wire"
)

// Lab is a set of running hosts. It ends with Close, or with the process, whichever is first.
type Lab struct {
	Publisher   *Host
	Relay       *Host   // the first of Relays
	Relays      []*Host // in the order of their names
	Subscribers []*Host

	network  *Host
	bpf      bpf.LinkObjects
	seed     uint64
	software bool // checksums

	changing sync.Mutex // held by Apply; taken before mu

	mu    sync.Mutex // guards wire, and of each link and device the conditions, the state and the addresses
	wire  *wire.Wire
	close func() error
}

// New builds the lab. Cancelling ctx while it does so stops and undoes it; it has no effect later.
//
// Errors that mean "this machine cannot do it" are a *MissingError.
func New(ctx context.Context, t Topology) (*Lab, error) {
	if err := t.validate(); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	if err := Permitted(); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	l := &Lab{seed: t.seed(), software: t.SoftwareChecksums}
	l.close = sync.OnceValue(l.release)
	if err := l.build(ctx, t); err != nil {
		return nil, fmt.Errorf("lab: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

// Close ends the lab. Processes that still run in its hosts keep their namespace, without links.
func (l *Lab) Close() error { return l.close() }

// Hosts returns all hosts: publisher, relays, subscribers, and the network in the middle.
func (l *Lab) Hosts() []*Host {
	return slices.Concat([]*Host{l.Publisher}, l.Relays, l.Subscribers, []*Host{l.network})
}

// Host returns the host of a name, or an error that lists the names.
func (l *Lab) Host(name string) (*Host, error) {
	for _, h := range l.Hosts() {
		if h.Name == name {
			return h, nil
		}
	}
	relays := RelayName
	if n := len(l.Relays); n > 1 {
		relays = fmt.Sprintf("%s, %s to %s", RelayName, RelayHostName(2), RelayHostName(n))
	}
	return nil, fmt.Errorf("no host %q: there are %s, %s, %s and sub1 to sub%d", name, PublisherName, relays,
		NetworkName, len(l.Subscribers))
}

func (l *Lab) build(ctx context.Context, t Topology) error {
	if err := bpf.LoadLinkObjects(&l.bpf, nil); err != nil {
		return loadError(err)
	}
	network, err := netns.New()
	if err != nil {
		return err
	}
	l.network = &Host{Name: NetworkName, lab: l, ns: network}
	if err := network.Sysctl(networkSysctls); err != nil {
		return err
	}
	return l.addHosts(ctx, t)
}

func (l *Lab) addHosts(ctx context.Context, t Topology) (err error) {
	up, err := l.network.ns.AddBridge("uplink")
	if err != nil {
		return err
	}
	down := up
	if !t.OneDevice {
		if down, err = l.network.ns.AddBridge("downlink"); err != nil {
			return err
		}
	}
	upper, lower, err := l.addRelays(t, up, down)
	if err != nil {
		return err
	}
	l.Publisher, err = l.addHost(PublisherName, attachment{"eth0", PublisherName, up, uplinkNet, publisherNum,
		t.Uplink, upper})
	if err != nil {
		return err
	}
	subscribers := downlinkNet
	if t.OneDevice {
		subscribers = uplinkNet
	}
	for i := 1; i <= t.Subscribers; i++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := SubscriberName(i)
		h, err := l.addHost(name, attachment{"eth0", name, down, subscribers, subscriberNum(i), t.Downlink, lower})
		if err != nil {
			return err
		}
		l.Subscribers = append(l.Subscribers, h)
	}
	return l.await(ctx)
}

// addRelays adds the relays. It returns their devices that face publishers and each other, and those that face
// subscribers.
func (l *Lab) addRelays(t Topology, up, down *netlink.Bridge) (upper, lower []*Device, err error) {
	for i := 1; i <= max(t.Relays, 1); i++ {
		name, number, link := RelayHostName(i), relayNum(i), LinkConfig{}
		if i > 1 {
			link = t.Backbone
		}
		devices := []attachment{{"up", name + "-up", up, uplinkNet, number, link, upper}}
		if !t.OneDevice {
			devices = append(devices, attachment{"down", name + "-down", down, downlinkNet, number, LinkConfig{}, nil})
		}
		h, err := l.addHost(name, devices...)
		if err != nil {
			return nil, nil, err
		}
		l.Relays = append(l.Relays, h)
		upper, lower = append(upper, h.Devices[0]), append(lower, h.Devices[len(h.Devices)-1])
	}
	l.Relay = l.Relays[0]
	return upper, lower, nil
}

// await waits until all devices carry packets.
func (l *Lab) await(ctx context.Context) error {
	for _, h := range l.Hosts() {
		for _, d := range h.Devices {
			if err := errors.Join(d.await(ctx, d.connected), d.await(ctx, d.addressed)); err != nil {
				return err
			}
		}
	}
	return nil
}

// release undoes whatever part of build was done.
func (l *Lab) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wire != nil {
		l.wire.Close()
	}
	for _, h := range l.Hosts() {
		if h != nil {
			h.ns.Close()
		}
	}
	return l.bpf.Close()
}

func loadError(err error) error {
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) {
		return fmt.Errorf("load the programs of links: %+v", verifier)
	}
	return netns.Missing("BPF (kernel 5.15 or newer)", err)
}

// Everything that would send packets on its own is off, and addresses are usable at once.
var (
	networkSysctls = map[string]string{"ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1"}
	hostSysctls    = map[string]string{
		// a new address must stay when the old one is removed
		"ipv4/conf/default/promote_secondaries":  "1",
		"ipv6/conf/default/accept_dad":           "0",
		"ipv6/conf/default/accept_ra":            "0",
		"ipv6/conf/default/router_solicitations": "0",
	}
)
