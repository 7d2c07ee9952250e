package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

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
	l := &Lab{seed: cmp.Or(t.Seed, 1), software: t.SoftwareChecksums}
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
		name, number, link := RelayHostName(i), relayNum(i), Conditions{}
		if i > 1 {
			link = t.Backbone
		}
		devices := []attachment{{"up", name + "-up", up, uplinkNet, number, link, upper}}
		if !t.OneDevice {
			devices = append(devices, attachment{"down", name + "-down", down, downlinkNet, number, Conditions{}, nil})
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

// EndProcesses ends the processes that run in the lab's hosts, as a shutdown of the hosts would: it asks them to end,
// and kills the ones that remain after a grace period. It returns their number when none is left.
func (l *Lab) EndProcesses(grace time.Duration) (count int, err error) {
	processes, err := l.processes()
	count = len(processes)
	for _, p := range processes {
		p.Signal(unix.SIGTERM)
	}
	for start := time.Now(); len(processes) > 0 && err == nil; processes, err = l.processes() {
		switch waited := time.Since(start); {
		case waited > grace+killTimeout:
			return count, fmt.Errorf("%d processes in the lab do not end", len(processes))
		case waited > grace:
			for _, p := range processes {
				p.Kill()
			}
		}
		time.Sleep(endPoll)
	}
	return count, err
}

// processes returns the other processes with a thread in one of the hosts. The main thread of a process that
// Client.Exec is about to replace may be elsewhere.
func (l *Lab) processes() ([]*os.Process, error) {
	inside := make(map[string]bool)
	for _, h := range l.Hosts() {
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", h.ns.File.Fd()))
		if err != nil {
			return nil, err
		}
		inside[link] = true
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []*os.Process
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil || pid == os.Getpid() {
			continue
		}
		p, err := os.FindProcess(pid) // holds a pidfd, so the signal reaches this process only
		if err != nil {
			continue
		}
		if hasThreadIn(pid, inside) {
			found = append(found, p)
		} else {
			p.Release()
		}
	}
	return found, nil
}

// Status describes the lab, which this process holds.
func (l *Lab) Status() (Status, error) {
	status := Status{PID: os.Getpid()}
	for _, h := range l.Hosts() {
		host := HostStatus{Name: h.Name, Namespace: fmt.Sprintf("/proc/%d/fd/%d", status.PID, h.ns.File.Fd())}
		for _, d := range h.Devices {
			device, err := d.status()
			if err != nil {
				return Status{}, err
			}
			host.Devices = append(host.Devices, device)
		}
		status.Hosts = append(status.Hosts, host)
	}
	return status, nil
}

// Apply makes a change.
func (l *Lab) Apply(c Change) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	h, err := l.Host(c.Host)
	if err != nil {
		return err
	}
	d, err := h.pick(c.Device)
	if err != nil {
		return err
	}
	steps := []struct {
		wanted bool
		do     func() error
	}{
		{c.ToHost != nil, func() error { return d.Link.Set(ToHost, *c.ToHost) }},
		{c.FromHost != nil, func() error { return d.Link.Set(FromHost, *c.FromHost) }},
		{c.Up != nil, func() error { return d.Link.SetUp(*c.Up) }},
		{c.Rebind, d.Link.Rebind},
		{c.ChangeAddress, d.ChangeAddress},
	}
	for _, s := range steps {
		if s.wanted {
			if err := s.do(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Chain returns the chain of the first relays.
func (l *Lab) Chain(length int) Chain { return Chain{l, length} }

func (l *Lab) addHost(name string, attachments ...attachment) (*Host, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	h := &Host{Name: name, lab: l, ns: ns}
	err = ns.Sysctl(hostSysctls)
	if err == nil {
		err = ns.Up("lo")
	}
	for _, a := range attachments {
		if err == nil {
			err = h.attach(a)
		}
	}
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	return h, nil
}

// SetSegmentation sets whether the devices of all hosts take the bursts of senders that use UDP GSO whole, as network
// cards do that cut them. A burst then crosses the sender's link as one packet, and the port of the receiver cuts it: a
// link that loses packets would lose all of it. Hosts of a new lab cut bursts themselves.
func (l *Lab) SetSegmentation(byDevices bool) error {
	for _, h := range l.Hosts() {
		for _, d := range h.Devices {
			if err := h.ns.SetFeatures(d.Name, netns.UDPSegmentation, byDevices); err != nil {
				return fmt.Errorf("host %s: %w", h.Name, err)
			}
		}
	}
	return nil
}

func (l *Lab) newLink(d *Device, port netlink.Link, c Conditions) (*Link, error) {
	k := &Link{lab: l, device: d, port: port}
	if port.Attrs().Index > maxPortIndex {
		return nil, fmt.Errorf("device index %d does not fit a VLAN ID", port.Attrs().Index)
	}
	err := errors.Join(l.attach(l.bpf.FromHost, port, netlink.HANDLE_MIN_INGRESS),
		l.attach(l.bpf.ToHost, port, netlink.HANDLE_MIN_EGRESS))
	if err != nil {
		return nil, err
	}
	return k, errors.Join(k.Set(ToHost, c), k.Set(FromHost, c))
}

func (l *Lab) startWire() (*wire.Wire, error) {
	w, err := wire.New(l.network.ns)
	if err != nil {
		return nil, err
	}
	tap := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: w.Index}}
	if err = l.attach(l.bpf.OffWire, tap, netlink.HANDLE_MIN_INGRESS); err != nil {
		w.Close()
		return nil, fmt.Errorf("attach to the wire: %w", err)
	}
	return w, nil
}

// attach attaches a program of links to a device of the network.
func (l *Lab) attach(program *ebpf.Program, device netlink.Link, parent uint32) error {
	if err := l.network.ns.AddHooks(device); err != nil {
		return err
	}
	hook := netns.Hook{Namespace: l.network.ns, Device: device, Parent: parent, Priority: netns.PriorityLink}
	return hook.Attach(program)
}

// StartCapture begins to record at points, until Stop.
func (l *Lab) StartCapture(points ...Point) (*Capture, error) {
	var hooks []placedHook
	for i, p := range points {
		h := p.hook()
		if err := h.Namespace.AddHooks(h.Device); err != nil {
			return nil, fmt.Errorf("lab: capture: %w", err)
		}
		hooks = append(hooks, placedHook{h, i, p.Direction == FromHost})
	}
	return startCapture(hooks)
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

const (
	killTimeout = 10 * time.Second // for the kernel to end killed processes
	endPoll     = 10 * time.Millisecond
)

// hasThreadIn reports whether a thread of a process is in one of the network namespaces.
func hasThreadIn(pid int, namespaces map[string]bool) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/net", pid))
	return slices.ContainsFunc(threads, func(path string) bool {
		link, err := os.Readlink(path)
		return err == nil && namespaces[link]
	})
}
