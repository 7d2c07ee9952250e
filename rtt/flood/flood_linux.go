// Package flood makes the kernel forward TCP traffic, as fast as one CPU can.
package flood

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/rtt/flood/bpf"
	"sluice/rtt/internal/wire"
)

// Devices of a Router, as they are named in its network namespace.
const (
	Inside  = "inside"
	Outside = "outside"
)

// Payload is the length of the data in a segment. DataFrame and ACKFrame are the lengths of its frame and of an ACK's.
const (
	Payload   = 1400
	ACKFrame  = 14 + 20 + 32
	DataFrame = ACKFrame + Payload
)

// Tick is the number of segments with one timestamp, over all flows. A flow has one RTT for each timestamp.
const Tick = 1024

// Addresses of the hosts between which traffic is forwarded.
var (
	client = netip.MustParseAddr("198.18.0.1")
	server = netip.MustParseAddr("198.19.0.1")
)

// A Router forwards in the network namespace of the thread that made it: data of flows from inside to outside, and one
// ACK for each segment back. The devices drop the packets that they send.
type Router struct {
	objects     bpf.FloodObjects
	taps        []*os.File
	forth, back direction
	forwarded   uint64 // at the last check
}

// direction injects a frame into a device, again and again, by a program that varies it.
type direction struct {
	program *ebpf.Program
	frame   []byte
	device  int
}

// New makes the devices and the routes. The network namespace must be empty.
func New(flows int) (*Router, error) {
	r := new(Router)
	if err := r.start(flows); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Router) start(flows int) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	inside, err := r.device(Inside, client)
	if err != nil {
		return err
	}
	outside, err := r.device(Outside, server)
	if err != nil {
		return err
	}
	data := wire.TCP{Flags: wire.ACK, Timestamps: true, Ecr: 1, Length: Payload}
	ack := wire.TCP{Flags: wire.ACK, Timestamps: true, Val: 1}
	from, to := netip.AddrPortFrom(client, 1), netip.AddrPortFrom(server, 5001)
	r.forth = direction{frame: frame(inside, data.Between(from, to)), device: inside.Index}
	r.back = direction{frame: frame(outside, ack.Between(to, from)), device: outside.Index}
	return r.load(flows)
}

// queue is the number of packets that a device keeps for a reader, and the number that its qdisc keeps.
const queue = 64

// device adds a TAP device that leads to a host. No process reads from it: packets that it sends are dropped at little
// cost.
func (r *Router) device(name string, host netip.Addr) (*netlink.LinkAttrs, error) {
	tap := &netlink.Tuntap{
		LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI,
		Queues: 1,
	}
	if err := netlink.LinkAdd(tap); err != nil {
		return nil, fmt.Errorf("add %s: %w", name, err)
	}
	r.taps = append(r.taps, tap.Fds...)
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	attrs := link.Attrs()
	return attrs, errors.Join(
		netlink.LinkSetTxQLen(link, queue),
		netlink.LinkSetUp(link),
		netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: host.Next().AsSlice(), Mask: net.CIDRMask(24, 32)}}),
		netlink.NeighSet(&netlink.Neigh{
			LinkIndex: attrs.Index, State: unix.NUD_PERMANENT, IP: host.AsSlice(),
			HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9},
		}))
}

// frame addresses a packet to the router's device.
func frame(device *netlink.LinkAttrs, packet []byte) []byte {
	f := wire.Frame(packet)
	copy(f, device.HardwareAddr)
	return f
}

// load loads the programs with the headers of the frames.
func (r *Router) load(flows int) error {
	spec, err := bpf.LoadFlood()
	if err != nil {
		return err
	}
	size := int(spec.Variables[bpf.FloodVarTemplates].Size()) / 2
	templates := append(r.forth.frame[:size:size], r.back.frame[:size]...)
	err = errors.Join(
		spec.Variables[bpf.FloodVarFlows].Set(uint32(flows)),
		spec.Variables[bpf.FloodVarPayload].Set(uint32(Payload)),
		spec.Variables[bpf.FloodVarTemplates].Set(templates))
	if err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&r.objects, nil); err != nil {
		return fmt.Errorf("load the generator: %w", err)
	}
	r.forth.program, r.back.program = r.objects.Forth, r.objects.Back
	return nil
}

// Close removes the devices.
func (r *Router) Close() error {
	var errs []error
	for _, f := range r.taps {
		errs = append(errs, f.Close())
	}
	return errors.Join(append(errs, r.objects.Close())...)
}

// Forward makes the kernel forward a number of segments, then their ACKs, and returns the CPU time that this took.
func (r *Router) Forward(segments int) (time.Duration, error) {
	before, err := cpuTime()
	if err != nil {
		return 0, err
	}
	if err := errors.Join(r.forth.inject(segments), r.back.inject(segments)); err != nil {
		return 0, err
	}
	after, err := cpuTime()
	return after - before, errors.Join(err, r.check(uint64(2*segments)))
}

// check returns an error if fewer than the given number of packets have reached a device since the last check.
func (r *Router) check(more uint64) error {
	var sent uint64
	for _, d := range []direction{r.forth, r.back} {
		link, err := netlink.LinkByIndex(d.device)
		if err != nil {
			return err
		}
		s := link.Attrs().Statistics
		sent += s.TxPackets + s.TxDropped
	}
	got := sent - r.forwarded
	r.forwarded = sent
	if got+4*queue < more {
		return fmt.Errorf("%d of %d packets were forwarded", got, more)
	}
	return nil
}

// cpuTime returns the CPU time that this thread has used. The thread that injects packets also forwards them.
func cpuTime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err
}

const liveFrames = 2 // BPF_F_TEST_XDP_LIVE_FRAMES

// batch is how many frames are handed over at once: as many as NAPI takes from a device.
const batch = 64

// xdpContext is struct xdp_md of the kernel.
type xdpContext struct {
	Data, DataEnd, DataMeta, IngressIndex, RxQueue, EgressIndex uint32
}

func (d *direction) inject(packets int) error {
	_, err := d.program.Run(&ebpf.RunOptions{
		Data: d.frame, Repeat: uint32(packets), BatchSize: batch, Flags: liveFrames,
		Context: xdpContext{DataEnd: uint32(len(d.frame)), IngressIndex: uint32(d.device)},
	})
	return err
}
