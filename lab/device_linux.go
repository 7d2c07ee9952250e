package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Device is a host's end of a link.
type Device struct {
	Name string
	IPv4 netip.Prefix
	IPv6 netip.Prefix
	Link *Link

	host   *Host
	device netlink.Link
	subnet subnet
	number uint16
	peers  []*Device
}

const (
	readyTimeout = 30 * time.Second // another process that takes its lab down can hold the kernel's lock for seconds
	readyPoll    = time.Millisecond
)

// await waits until the kernel has done in the background what a change of the link or of an address needs, and without
// which the bridge forwards nothing, the device drops what it should send, and what arrives for an IPv6 address has no route.
func (d *Device) await(ctx context.Context, up bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errors.New("the kernel took too long"))
	defer cancel()
	for {
		ready, err := d.ready(up)
		if err != nil || ready {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s of %s: %w", d.Name, d.host.Name, context.Cause(ctx))
		case <-time.After(readyPoll):
		}
	}
}

func (d *Device) ready(up bool) (bool, error) {
	device, err := d.host.ns.nl.LinkByIndex(d.device.Attrs().Index)
	if err != nil {
		return false, err
	}
	if !up {
		return device.Attrs().OperState != netlink.OperUp, nil
	}
	port, err := d.host.lab.network.ns.nl.LinkByIndex(d.Link.port.Attrs().Index)
	if err != nil {
		return false, err
	}
	if device.Attrs().OperState != netlink.OperUp || port.Attrs().OperState != netlink.OperUp {
		return false, nil
	}
	routes, err := d.host.ns.nl.RouteGet(d.IPv6.Addr().AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL, nil
}

// HardwareAddr returns the Ethernet address.
func (d *Device) HardwareAddr() net.HardwareAddr { return d.device.Attrs().HardwareAddr }

// alternateBit tells the two addresses of a device apart; ChangeAddress goes back and forth between them.
const alternateBit = 1 << 13

// ChangeAddress gives the device other addresses than it has and takes the present ones away, as a roaming host does.
// It must not be called twice at a time.
func (d *Device) ChangeAddress() error {
	old := []netip.Prefix{d.IPv4, d.IPv6}
	d.number ^= alternateBit
	// The new ones first: removing the last address of a device would remove its routes, too.
	if err := errors.Join(d.addAddresses(), d.await(context.Background(), true)); err != nil {
		return err
	}
	for _, p := range old {
		if err := d.host.ns.nl.AddrDel(d.device, address(p)); err != nil {
			return fmt.Errorf("take %v from %s: %w", p, d.Name, err)
		}
		for _, peer := range d.peers {
			if err := peer.host.ns.nl.NeighDel(d.entry(peer, p)); err != nil {
				return fmt.Errorf("forget %v at %s: %w", p, peer.host.Name, err)
			}
		}
	}
	return nil
}

func (d *Device) addAddresses() error {
	d.host.lab.mu.Lock()
	d.IPv4, d.IPv6 = d.subnet.address(d.number)
	d.host.lab.mu.Unlock()
	for _, p := range []netip.Prefix{d.IPv4, d.IPv6} {
		if err := d.host.ns.nl.AddrAdd(d.device, address(p)); err != nil {
			return fmt.Errorf("add %v to %s: %w", p, d.Name, err)
		}
		for _, peer := range d.peers {
			if err := peer.know(d, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// meet makes two devices permanent neighbours. Nothing then waits for ARP, the kernel's table of all namespaces together
// (1,024 entries that are not permanent) does not overflow, and the first packet of a run is always the same one.
func (d *Device) meet(peer *Device) error {
	if peer == nil {
		return nil
	}
	d.peers, peer.peers = append(d.peers, peer), append(peer.peers, d)
	for _, pair := range [][2]*Device{{d, peer}, {peer, d}} {
		for _, p := range []netip.Prefix{pair[1].IPv4, pair[1].IPv6} {
			if err := pair[0].know(pair[1], p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Device) know(peer *Device, p netip.Prefix) error {
	if err := d.host.ns.nl.NeighSet(peer.entry(d, p)); err != nil {
		return fmt.Errorf("make %v a neighbour of %s: %w", p, d.host.Name, err)
	}
	return nil
}

// entry is that of d at an address in the neighbour table of a peer.
func (d *Device) entry(peer *Device, p netip.Prefix) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: peer.device.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: p.Addr().AsSlice(), HardwareAddr: d.HardwareAddr(),
	}
}

// bridgeEntry tells the bridge where the device is. Until a bridge has seen a packet of a device it sends what is for the
// device to everybody.
func bridgeEntry(port netlink.Link, d *Device) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: port.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER,
		HardwareAddr: d.HardwareAddr(),
	}
}

func address(p netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, Flags: unix.IFA_F_NODAD}
}
