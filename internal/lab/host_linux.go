package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"

	"github.com/vishvananda/netlink"
)

// Host is a network namespace with its devices.
type Host struct {
	Name    string
	Devices []*Device // eth0; of the relay: up, down

	lab *Lab
	ns  *namespace
}

// attachment says how to join a host to the network.
type attachment struct {
	device, port string
	bridge       *netlink.Bridge
	subnet       subnet
	number       uint16
	link         LinkConfig
	peer         *Device // the relay's, of other hosts
}

func (l *Lab) addHost(name string, attachments ...attachment) (*Host, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	h := &Host{Name: name, lab: l, ns: ns}
	err = ns.sysctl(hostSysctls)
	if err == nil {
		err = ns.up("lo")
	}
	for _, a := range attachments {
		if err == nil {
			err = h.attach(a)
		}
	}
	if err != nil {
		ns.close()
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	return h, nil
}

func (h *Host) attach(a attachment) error {
	network := h.lab.network.ns
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex = a.port, mtu, a.bridge.Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: a.device, PeerNamespace: netlink.NsFd(h.ns.file.Fd()),
		PeerMTU: mtu}
	if err := network.nl.LinkAdd(veth); err != nil {
		return missing("veth devices (CONFIG_VETH, module veth)", err)
	}
	device, err := h.ns.nl.LinkByName(a.device)
	if err != nil {
		return fmt.Errorf("find %s: %w", a.device, err)
	}
	port, err := network.nl.LinkByName(a.port)
	if err != nil {
		return fmt.Errorf("find %s: %w", a.port, err)
	}
	d := &Device{Name: a.device, host: h, device: device, subnet: a.subnet, number: a.number}
	h.Devices = append(h.Devices, d)
	if err := h.offload(a); err != nil {
		return err
	}
	if d.Link, err = h.lab.newLink(d, port, a.link); err != nil {
		return err
	}
	// Up first: a device that is down forgets its IPv6 addresses and its neighbours.
	return errors.Join(h.ns.up(a.device), network.up(a.port), d.addAddresses(), d.meet(a.peer),
		network.nl.NeighSet(bridgeEntry(port, d)))
}

func (h *Host) offload(a attachment) error {
	features := segmentationFeatures
	if h.lab.software {
		features = append(features, checksumFeatures...)
	}
	return errors.Join(h.ns.disable(a.device, features), h.lab.network.ns.disable(a.port, segmentationFeatures))
}

func (n *namespace) up(device string) error {
	link, err := n.nl.LinkByName(device)
	if err == nil {
		err = n.nl.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("bring %s up: %w", device, err)
	}
	return nil
}

// Device returns the device of a name. It panics if there is none: the names are fixed by the topology.
func (h *Host) Device(name string) *Device {
	for _, d := range h.Devices {
		if d.Name == name {
			return d
		}
	}
	panic("lab: " + h.Name + " has no device " + name)
}

// Facing returns the device through which the host reaches other: the relay has one for each side.
func (h *Host) Facing(other *Host) *Device {
	for _, d := range h.Devices {
		if d.IPv4.Contains(other.Devices[0].IPv4.Addr()) {
			return d
		}
	}
	return h.Devices[0]
}

// Do runs fn inside the host: sockets that fn makes on its own goroutine belong to the host for good. Goroutines that
// fn starts are outside, and so are name lookups and the parallel dials of net.Dialer.
func (h *Host) Do(fn func() error) error { return h.ns.do(fn) }

// Start starts a process inside the host.
func (h *Host) Start(cmd *exec.Cmd) error { return h.ns.do(cmd.Start) }

// Run starts a process inside the host and waits for its end.
func (h *Host) Run(cmd *exec.Cmd) error {
	if err := h.Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// ListenUDP opens a UDP socket inside the host. An invalid address means any; port 0 means a free one.
func (h *Host) ListenUDP(local netip.AddrPort) (conn *net.UDPConn, err error) {
	err = h.ns.do(func() error {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
		return err
	})
	return conn, err
}
