package lab

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/vishvananda/netlink"

	"sluice/lab/bpf"
	"sluice/lab/measure"
	"sluice/lab/netns"
)

// Point is a place where packets are timed: where a host's device sends them (FromHost), before the rate and the
// conditions of its link, or where the link hands them to that device (ToHost), after all conditions but the rate.
// Between such a point and the host no packet waits for another one. Farther out, packets would wait: a processor
// passes packets to the next device only after it has handled all packets of the previous one.
type Point struct {
	Device    *Device
	Direction Direction
}

// hook is where the packets of a point pass: the egress of the device itself, or of the port at the other end of its
// cable.
func (p Point) hook() netns.Hook {
	h := netns.Hook{
		Namespace: p.Device.host.ns, Device: p.Device.device,
		Parent: netlink.HANDLE_MIN_EGRESS, Priority: netns.PriorityCapture,
	}
	if p.Direction == ToHost {
		h.Namespace, h.Device = p.Device.host.lab.network.ns, p.Device.Link.port
	}
	return h
}

// Capture records the UDP packets that pass some points.
type Capture struct {
	programs []*bpf.CaptureObjects
	atHosts  []ebpf.ProgramID
	hooks    []hook
	ring     *ringbuf.Reader
	err      error
	stop     chan struct{}
	done     chan struct{}

	mu      sync.Mutex
	packets []measure.Packet
}

// hook is where a program of a capture is attached.
type hook interface {
	Attach(program *ebpf.Program) error
	Detach() error
}

// captureInterval is how often the ring is emptied: the programs do not wake the reader.
const captureInterval = 10 * time.Millisecond

// placedHook is a hook, the index of its point, and whether its program runs in the time of the host whose packets it
// records: a port's runs in the link's time.
type placedHook struct {
	hook
	point  int
	atHost bool
}

func startCapture(hooks []placedHook) (*Capture, error) {
	c := &Capture{stop: make(chan struct{}), done: make(chan struct{})}
	for _, h := range hooks {
		if err := c.add(h); err != nil {
			return nil, fmt.Errorf("lab: capture: %w", errors.Join(err, c.detach()))
		}
	}
	go c.run()
	return c, nil
}

// add loads a program for one more point, and attaches it.
func (c *Capture) add(h placedHook) error {
	program, err := c.load(h.point)
	if err != nil {
		return err
	}
	c.programs = append(c.programs, program)
	if h.atHost {
		info, err := program.Record.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID() // Linux 4.13
		c.atHosts = append(c.atHosts, id)
	}
	if c.ring == nil {
		if c.ring, err = ringbuf.NewReader(program.Packets); err != nil {
			return err
		}
	}
	if err := h.Attach(program.Record); err != nil {
		return err
	}
	c.hooks = append(c.hooks, h.hook)
	return nil
}

// load loads one more program. All write to one ring.
func (c *Capture) load(point int) (*bpf.CaptureObjects, error) {
	spec, err := bpf.LoadCapture()
	if err != nil {
		return nil, loadError(err)
	}
	if err := spec.Variables[bpf.CaptureVarPoint].Set(uint32(point)); err != nil {
		return nil, err
	}
	var options ebpf.CollectionOptions
	if len(c.programs) > 0 {
		options.MapReplacements = map[string]*ebpf.Map{bpf.CaptureMapPackets: c.programs[0].Packets}
	}
	program := new(bpf.CaptureObjects)
	if err := spec.LoadAndAssign(program, &options); err != nil {
		return nil, loadError(err)
	}
	return program, nil
}

// AtHosts returns the programs that run in the time of the hosts whose packets they record.
func (c *Capture) AtHosts() []ebpf.ProgramID { return c.atHosts }

// Stop ends the recording and returns the packets in the order of their passing. An error means that some are
// missing.
func (c *Capture) Stop() ([]measure.Packet, error) {
	err := c.unhook()
	close(c.stop)
	<-c.done
	if overflow := c.overflow(); overflow > 0 {
		err = errors.Join(err, fmt.Errorf("%d packets did not fit the buffer", overflow))
	}
	if err = errors.Join(err, c.err, c.detach()); err != nil {
		err = fmt.Errorf("lab: capture: %w", err)
	}
	return c.Packets(), err
}

// overflow returns how many packets did not fit the ring.
func (c *Capture) overflow() (sum uint64) {
	for _, p := range c.programs {
		var n uint64
		if p.Overflow.Get(&n) == nil {
			sum += n
		}
	}
	return sum
}

// Packets returns the packets recorded so far, in the order of their passing.
func (c *Capture) Packets() []measure.Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return measure.SortByTime(slices.Clone(c.packets))
}

// unhook detaches the programs from their points.
func (c *Capture) unhook() (err error) {
	for _, h := range c.hooks {
		err = errors.Join(err, h.Detach())
	}
	c.hooks = nil
	return err
}

func (c *Capture) detach() error {
	err := c.unhook()
	if c.ring != nil {
		err = errors.Join(err, c.ring.Close())
	}
	for _, p := range c.programs {
		err = errors.Join(err, p.Close())
	}
	return err
}

func (c *Capture) run() {
	defer close(c.done)
	tick := time.NewTicker(captureInterval)
	defer tick.Stop()
	for c.err == nil {
		select {
		case <-tick.C:
			c.err = c.drain()
		case <-c.stop:
			c.err = c.drain()
			return
		}
	}
}

// drain reads the packets that are in the ring now.
func (c *Capture) drain() error {
	if err := c.ring.Flush(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var record ringbuf.Record
	for {
		err := c.ring.ReadInto(&record)
		if errors.Is(err, ringbuf.ErrFlushed) {
			return nil
		}
		if err != nil {
			return err
		}
		c.packets = append(c.packets, parse(record.RawSample)...)
	}
}

// parse reads struct packet of bpf/capture.bpf.c. A buffer that UDP GSO is about to cut is returned as the resulting
// packets; only the first one has the hash of its content.
func parse(b []byte) (packets []measure.Packet) {
	var r bpf.CapturePacket
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)), b)
	p := measure.Packet{
		Time:  time.Duration(r.Time),
		Hash:  r.Hash,
		Point: int(r.Point),
		Flow:  measure.Flow{Source: endpoint(r.Source, r.SourcePort), Target: endpoint(r.Target, r.TargetPort)},
	}
	left := int(r.Length)
	segment := cmp.Or(int(r.Segment), left)
	for left > segment {
		p.Length = segment
		packets = append(packets, p)
		left -= segment
		p.Hash = 0
	}
	p.Length = left
	return append(packets, p)
}

func endpoint(address [16]byte, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(address).Unmap(), port)
}
