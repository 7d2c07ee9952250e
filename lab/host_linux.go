package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"

	"github.com/vishvananda/netlink"

	"sluice/lab/netns"
)

// Host is a network namespace with its devices.
type Host struct {
	Name    string
	Devices []*Device // eth0; of a relay: up, down

	lab *Lab
	ns  *netns.Namespace
}

// attachment describes how to join a host to the network.
type attachment struct {
	device, port string
	bridge       *netlink.Bridge
	subnet       subnet
	number       uint16
	link         Conditions
	peers        []*Device // the relays' that it faces
}

func (h *Host) attach(a attachment) error {
	network := h.lab.network.ns
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex = a.port, netns.MTU, a.bridge.Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: a.device, PeerNamespace: netlink.NsFd(h.ns.File.Fd()),
		PeerMTU: netns.MTU}
	if err := network.Netlink.LinkAdd(veth); err != nil {
		return netns.Missing("veth devices (CONFIG_VETH, module veth)", err)
	}
	device, err := h.ns.Netlink.LinkByName(a.device)
	if err != nil {
		return fmt.Errorf("find %s: %w", a.device, err)
	}
	port, err := network.Netlink.LinkByName(a.port)
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
	return errors.Join(h.ns.Up(a.device), network.Up(a.port), d.addAddresses(), d.meet(a.peers),
		network.Netlink.NeighSet(bridgeEntry(port, d)))
}

func (h *Host) offload(a attachment) error {
	features := netns.Segmentation
	if h.lab.software {
		features = append(features, netns.Checksum...)
	}
	return errors.Join(h.ns.SetFeatures(a.device, features, false),
		h.lab.network.ns.SetFeatures(a.port, netns.Segmentation, false))
}

// Namespace returns the inode of the host's network namespace, by which the kernel's programs know it.
func (h *Host) Namespace() (uint64, error) { return h.ns.Inode() }

// Device returns the device of a name. It panics if there is none: the names are fixed by the topology.
func (h *Host) Device(name string) *Device {
	for _, d := range h.Devices {
		if d.Name == name {
			return d
		}
	}
	panic("lab: " + h.Name + " has no device " + name)
}

// Facing returns the device through which the host reaches other: a relay has one for each side.
func (h *Host) Facing(other *Host) *Device {
	for _, d := range h.Devices {
		if d.IPv4.Contains(other.Devices[0].IPv4.Addr()) {
			return d
		}
	}
	return h.Devices[0]
}

// has reports whether an address is one of the host's.
func (h *Host) has(addr netip.Addr) bool {
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	return slices.ContainsFunc(h.Devices, func(d *Device) bool {
		return d.IPv4.Addr() == addr || d.IPv6.Addr() == addr
	})
}

// Do runs fn inside the host: sockets that fn makes on its own goroutine belong to the host for good. Goroutines that
// fn starts are outside, and so are name lookups and the parallel dials of net.Dialer.
func (h *Host) Do(fn func() error) error { return h.ns.Do(fn) }

// Start starts a process inside the host.
func (h *Host) Start(cmd *exec.Cmd) error { return h.ns.Do(cmd.Start) }

// ListenUDP opens a UDP socket inside the host. An invalid address means any; port 0 means a free one.
func (h *Host) ListenUDP(local netip.AddrPort) (conn *net.UDPConn, err error) {
	err = h.ns.Do(func() error {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
		return err
	})
	return conn, err
}

// pick returns the device of a name, or the only one if the name is empty.
func (h *Host) pick(name string) (*Device, error) {
	if name == "" && len(h.Devices) == 1 {
		return h.Devices[0], nil
	}
	var names []string
	for _, d := range h.Devices {
		if d.Name == name {
			return d, nil
		}
		names = append(names, h.Name+":"+d.Name)
	}
	return nil, fmt.Errorf("no link of that name: %s has %q", h.Name, names)
}
