package lab

import (
	"cmp"
	"context"
	"fmt"

	"github.com/vishvananda/netlink"

	"sluice/lab/bpf"
)

// Direction is a way through a link.
type Direction uint8

// The directions of a link.
const (
	FromHost = Direction(bpf.LinkDirectionFROM_HOST)
	ToHost   = Direction(bpf.LinkDirectionTO_HOST)
)

func (d Direction) String() string {
	if d == ToHost {
		return "to host"
	}
	return "from host"
}

// Link joins a host's device to a port of the network host.
type Link struct {
	lab    *Lab
	device *Device
	port   netlink.Link

	conditions [2]Conditions // by Direction
	portMask   uint16
	isDown     bool
}

const maxPortIndex = int(bpf.LinkLaneLANES)/2 - 1

// Set changes the conditions of one direction, for packets that enter the link from now on. Packets that are under way
// keep their delay, so that packets without delay overtake them.
func (k *Link) Set(d Direction, c Conditions) error {
	if err := c.validate(); err != nil {
		return err
	}
	k.lab.mu.Lock()
	defer k.lab.mu.Unlock()
	if err := k.setLocked(d, c); err != nil {
		return fmt.Errorf("link of %s, %v: %w", k.device.host.Name, d, err)
	}
	return nil
}

// setLocked is Set with Lab.mu held.
func (k *Link) setLocked(d Direction, c Conditions) error {
	index := 0
	if c.needsWire() {
		if k.lab.wire == nil {
			w, err := k.lab.startWire()
			if err != nil {
				return err
			}
			k.lab.wire = w
		}
		k.lab.wire.Configure(uint16(k.lane(d)), c.Delay, cmp.Or(c.ReorderGap, defaultReorderGap),
			cmp.Or(c.Hold, defaultHold))
		index = k.lab.wire.Index
	}
	// A queue holds packets where they leave a namespace: at the port for those to the host, at the host's device for
	// those from it.
	ns, device := k.lab.network.ns, k.port
	if d == FromHost {
		ns, device = k.device.host.ns, k.device.device
	}
	if err := ns.SetRate(device, uint64(c.Rate), cmp.Or(c.Queue, DefaultQueue)); err != nil {
		return err
	}
	k.conditions[d] = c
	return k.updateLocked(d, index)
}

// updateLocked writes the conditions into the map of the BPF programs. Lab.mu is held.
func (k *Link) updateLocked(d Direction, wire int) error {
	c := k.conditions[d]
	return k.lab.bpf.Lanes.Put(k.lane(d), bpf.LinkConditions{
		Seed: laneSeed(k.lab.seed, k.lane(d)),
		Loss: c.Loss.scaled(), Mark: c.Mark.scaled(), Duplicate: c.Duplicate.scaled(), Reorder: c.Reorder.scaled(),
		Wire: uint32(wire), PortMask: k.portMask,
	})
}

func (k *Link) lane(d Direction) uint32 { return uint32(k.port.Attrs().Index)<<1 | uint32(d) }

// laneSeed gives every lane a sequence of its own.
func laneSeed(seed uint64, lane uint32) uint64 { return mix(mix(seed) + uint64(lane)) }

// mix is the finalizer of SplitMix64, as in bpf/link.bpf.c.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// SetUp plugs the link in or unplugs it, like a cable: the host's device gets or loses its carrier.
func (k *Link) SetUp(up bool) error {
	change, done := k.lab.network.ns.Netlink.LinkSetDown, k.device.unplugged
	if up {
		change, done = k.lab.network.ns.Netlink.LinkSetUp, k.device.connected
	}
	if err := change(k.port); err != nil {
		return fmt.Errorf("link of %s: %w", k.device.host.Name, err)
	}
	k.lab.mu.Lock()
	k.isDown = !up
	k.lab.mu.Unlock()
	return k.device.await(context.Background(), done)
}

// Rebind changes the UDP ports that the network sees of the host, as a NAT does after its bindings have timed out. The
// host sees no change.
func (k *Link) Rebind() error {
	k.lab.mu.Lock()
	defer k.lab.mu.Unlock()
	// 256 masks below 1024 keep ephemeral ports ephemeral.
	k.portMask = k.portMask%256 + 1
	for _, d := range []Direction{FromHost, ToHost} {
		index := 0
		if k.conditions[d].needsWire() {
			index = k.lab.wire.Index
		}
		if err := k.updateLocked(d, index); err != nil {
			return fmt.Errorf("rebind %s: %w", k.device.host.Name, err)
		}
	}
	return nil
}

// Stats returns the counters of one direction since the lab was built.
func (k *Link) Stats(d Direction) (LinkStats, error) {
	var perCPU []bpf.LinkEvents
	if err := k.lab.bpf.Counters.Lookup(k.lane(d), &perCPU); err != nil {
		return LinkStats{}, fmt.Errorf("read counters: %w", err)
	}
	var sum bpf.LinkEvents
	for _, cpu := range perCPU {
		for i, n := range cpu.Count {
			sum.Count[i] += n
		}
	}
	s := LinkStats{
		Packets:    sum.Count[bpf.LinkEventPACKETS],
		Exempt:     sum.Count[bpf.LinkEventEXEMPT],
		Lost:       sum.Count[bpf.LinkEventLOST],
		Marked:     sum.Count[bpf.LinkEventMARKED],
		Duplicated: sum.Count[bpf.LinkEventDUPLICATED],
		Reordered:  sum.Count[bpf.LinkEventREORDERED],
		Delayed:    sum.Count[bpf.LinkEventWIRED],
		Returned:   sum.Count[bpf.LinkEventRETURNED],
		Failed:     sum.Count[bpf.LinkEventFAILED],
	}
	var err error
	if d == FromHost {
		s.QueueDrops, err = k.device.host.ns.RateDrops(k.device.device)
	} else {
		s.QueueDrops, err = k.lab.network.ns.RateDrops(k.port)
	}
	return s, err
}
