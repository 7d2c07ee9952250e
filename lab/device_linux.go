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

	"sluice/lab/netns"
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

// await waits until ready returns true: the kernel finishes changes in the background.
func (d *Device) await(ctx context.Context, ready func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errors.New("the kernel took too long"))
	defer cancel()
	for {
		done, err := ready()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s of %s: %w", d.Name, d.host.Name, context.Cause(ctx))
		case <-time.After(readyPoll):
		}
	}
}

// connected reports whether both ends of the link are up. Before that, the bridge forwards nothing, and the device
// drops packets.
func (d *Device) connected() (bool, error) {
	device, err := d.host.ns.Netlink.LinkByIndex(d.device.Attrs().Index)
	if err != nil {
		return false, err
	}
	port, err := d.host.lab.network.ns.Netlink.LinkByIndex(d.Link.port.Attrs().Index)
	if err != nil {
		return false, err
	}
	return device.Attrs().OperState == netlink.OperUp && port.Attrs().OperState == netlink.OperUp, nil
}

// unplugged reports whether the device knows that it has no carrier.
func (d *Device) unplugged() (bool, error) {
	device, err := d.host.ns.Netlink.LinkByIndex(d.device.Attrs().Index)
	return err == nil && device.Attrs().OperState != netlink.OperUp, err
}

// addressed reports whether the host accepts packets for the IPv6 address: its route comes later than the address.
func (d *Device) addressed() (bool, error) {
	routes, err := d.host.ns.Netlink.RouteGet(d.IPv6.Addr().AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL, nil
}

// HardwareAddr returns the Ethernet address.
func (d *Device) HardwareAddr() net.HardwareAddr { return d.device.Attrs().HardwareAddr }

// alternateBit tells the two addresses of a device apart; ChangeAddress goes back and forth between them.
const alternateBit = 1 << 13

// CompleteChecksums has packets that leave by the device get their checksums before, as if it could not compute them.
// Their receivers verify these.
func (d *Device) CompleteChecksums() error {
	return d.host.ns.SetFeatures(d.Name, netns.Checksum, false)
}

// ChangeAddress replaces the addresses of the device, like a roaming host. Calls must not overlap.
func (d *Device) ChangeAddress() error {
	old := []netip.Prefix{d.IPv4, d.IPv6}
	d.number ^= alternateBit
	// The new ones first: removing the last address of a device would remove its routes, too.
	if err := errors.Join(d.addAddresses(), d.await(context.Background(), d.addressed)); err != nil {
		return err
	}
	for _, p := range old {
		if err := d.host.ns.Netlink.AddrDel(d.device, address(p)); err != nil {
			return fmt.Errorf("take %v from %s: %w", p, d.Name, err)
		}
		for _, peer := range d.peers {
			if err := peer.host.ns.Netlink.NeighDel(d.entry(peer, p)); err != nil {
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
		if err := d.host.ns.Netlink.AddrAdd(d.device, address(p)); err != nil {
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

// meet makes devices permanent neighbours of this one. Nothing then waits for ARP, the kernel's table of all namespaces
// together (1,024 entries that are not permanent) does not overflow, and the first packet of a run is always the same
// one.
func (d *Device) meet(peers []*Device) error {
	for _, peer := range peers {
		d.peers, peer.peers = append(d.peers, peer), append(peer.peers, d)
		for _, pair := range [][2]*Device{{d, peer}, {peer, d}} {
			for _, p := range []netip.Prefix{pair[1].IPv4, pair[1].IPv6} {
				if err := pair[0].know(pair[1], p); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (d *Device) know(peer *Device, p netip.Prefix) error {
	if err := d.host.ns.Netlink.NeighSet(peer.entry(d, p)); err != nil {
		return fmt.Errorf("make %v a neighbour of %s: %w", p, d.host.Name, err)
	}
	return nil
}

// entry returns the entry of d at an address in the neighbour table of a peer.
func (d *Device) entry(peer *Device, p netip.Prefix) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: peer.device.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: p.Addr().AsSlice(), HardwareAddr: d.HardwareAddr(),
	}
}

// bridgeEntry tells the bridge where the device is. Until a bridge has seen a packet of a device, it sends packets for
// the device to all ports.
func bridgeEntry(port netlink.Link, d *Device) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: port.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER,
		HardwareAddr: d.HardwareAddr(),
	}
}

func address(p netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())},
		Flags: unix.IFA_F_NODAD}
}

func (d *Device) status() (s DeviceStatus, err error) {
	d.host.lab.mu.Lock()
	s = DeviceStatus{Name: d.Name, IPv4: d.IPv4, IPv6: d.IPv6, Up: !d.Link.isDown}
	s.ToHost.Conditions, s.FromHost.Conditions = d.Link.conditions[ToHost], d.Link.conditions[FromHost]
	d.host.lab.mu.Unlock()
	if s.ToHost.Stats, err = d.Link.Stats(ToHost); err != nil {
		return s, err
	}
	s.FromHost.Stats, err = d.Link.Stats(FromHost)
	return s, err
}
