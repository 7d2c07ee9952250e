package forwarding

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/lab/netns"
	"sluice/rtt/flood"
)

// endHosts are two hosts with TCP connections through a router, which is the network namespace of the thread that made
// them. They share a CPU with it: a write sends segments, and before it returns, the kernel has forwarded most of them,
// received them at the other host, and sent and forwarded the ACKs.
type endHosts struct {
	router *netns.Namespace
	hosts  [2]*netns.Namespace
	flows  []flow
	next   int // that sends
	data   []byte
}

// flow is a TCP connection from the first host to the second.
type flow struct{ from, to *net.TCPConn }

// chunk is how many segments a flow sends at a time: 32 KB, which every socket has room for, as nobody reads meanwhile.
const chunk = 23

func newEndHosts(flows int) (*endHosts, error) {
	h := &endHosts{data: make([]byte, chunk*flood.Payload)}
	if err := h.start(flows); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *endHosts) start(flows int) (err error) {
	if h.router, err = netns.OfThread(); err != nil {
		return err
	}
	if err := h.router.Sysctl(map[string]string{"ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	subnets := [...]netip.Prefix{netip.MustParsePrefix("198.18.0.1/24"), netip.MustParsePrefix("198.19.0.1/24")}
	for i, device := range []string{flood.Inside, flood.Outside} {
		if h.hosts[i], err = netns.New(); err != nil {
			return err
		}
		if err := h.link(device, h.hosts[i], subnets[i]); err != nil {
			return fmt.Errorf("link a host to the router: %w", err)
		}
	}
	if err := h.connect(flows, subnets[1].Addr()); err != nil {
		return fmt.Errorf("connect the hosts: %w", err)
	}
	return nil
}

// link joins a host to the router. The devices neither cut nor join segments: each is a packet, as on a cable.
func (h *endHosts) link(device string, host *netns.Namespace, address netip.Prefix) error {
	const peer = "eth0"
	mtu := flood.Payload + 20 + 32 // IPv4, and TCP with timestamps
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = device, mtu
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: peer, PeerNamespace: netlink.NsFd(host.File.Fd()), PeerMTU: uint32(mtu),
	}
	if err := h.router.Netlink.LinkAdd(veth); err != nil {
		return netns.Missing("veth devices (CONFIG_VETH, module veth)", err)
	}
	gateway := netip.PrefixFrom(address.Addr().Next(), address.Bits())
	if err := bringUp(h.router, device, gateway); err != nil {
		return err
	}
	if err := bringUp(host, peer, address); err != nil {
		return err
	}
	return host.Netlink.RouteAdd(&netlink.Route{Gw: gateway.Addr().AsSlice()})
}

func bringUp(at *netns.Namespace, device string, address netip.Prefix) error {
	link, err := at.Netlink.LinkByName(device)
	if err != nil {
		return err
	}
	mask := net.CIDRMask(address.Bits(), 32)
	return errors.Join(
		at.SetFeatures(device, netns.Segmentation, false),
		at.Netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: address.Addr().AsSlice(), Mask: mask}}),
		at.Netlink.LinkSetUp(link))
}

// connect adds flows to an address of the second host.
func (h *endHosts) connect(flows int, to netip.Addr) error {
	var listener *net.TCPListener
	err := h.hosts[1].Do(func() (err error) {
		listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(to, 0)))
		return err
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	return h.hosts[0].Do(func() error {
		for range flows {
			from, err := net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
			if err != nil {
				return err
			}
			to, err := listener.AcceptTCP()
			if err != nil {
				return errors.Join(err, from.Close())
			}
			h.flows = append(h.flows, flow{from, to})
		}
		return nil
	})
}

// forward sends segments in flows that take turns. Nothing else should run on this CPU: its time is real time.
func (h *endHosts) forward(segments int) (passed, error) {
	before, err := h.sent()
	if err != nil {
		return passed{}, err
	}
	begin := time.Now()
	for sent := 0; sent < segments; sent += chunk {
		f := h.flows[h.next%len(h.flows)]
		h.next++
		data := h.data[:min(chunk, segments-sent)*flood.Payload]
		if _, err := f.from.Write(data); err != nil {
			return passed{}, err
		}
		if _, err := io.ReadFull(f.to, data); err != nil {
			return passed{}, err
		}
	}
	used := time.Since(begin)
	after, err := h.sent()
	return passed{after.packets - before.packets, after.bytes - before.bytes, used}, err
}

// sent returns what the router's devices have sent so far.
func (h *endHosts) sent() (p passed, err error) {
	for _, device := range []string{flood.Inside, flood.Outside} {
		link, err := h.router.Netlink.LinkByName(device)
		if err != nil {
			return p, err
		}
		s := link.Attrs().Statistics
		p = p.plus(passed{packets: int(s.TxPackets), bytes: int(s.TxBytes)})
	}
	return p, nil
}

// Close ends the connections and removes the hosts.
func (h *endHosts) Close() error {
	var errs []error
	for _, f := range h.flows {
		errs = append(errs, f.from.Close(), f.to.Close())
	}
	for _, n := range append(h.hosts[:], h.router) {
		if n != nil {
			n.Close()
		}
	}
	return errors.Join(errs...)
}
