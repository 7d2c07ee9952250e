package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
)

// Point is a place where packets are timed: where a link takes them from its host (FromHost), before the link's
// conditions, or where it hands them to its host (ToHost), after all conditions but the rate. Both are outside the host,
// so that what runs in the host can neither see nor influence the measurement.
type Point struct {
	Device    *Device
	Direction Direction
}

// Capture records the UDP packets that pass some points.
type Capture struct {
	lab     *Lab
	objects captureObjects
	ring    *ringbuf.Reader
	points  map[uint16]int // by lane
	hooks   []hook
	err     error
	stop    chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	packets []Packet
}

// captureInterval is how often the ring is emptied: the programs do not wake the reader.
const captureInterval = 10 * time.Millisecond

// StartCapture begins to record at points, until Stop.
func (l *Lab) StartCapture(points ...Point) (*Capture, error) {
	c := &Capture{lab: l, points: make(map[uint16]int), stop: make(chan struct{}), done: make(chan struct{})}
	if err := c.start(points); err != nil {
		return nil, fmt.Errorf("lab: capture: %w", errors.Join(err, c.detach()))
	}
	go c.run()
	return c, nil
}

func (c *Capture) start(points []Point) (err error) {
	if err := loadCaptureObjects(&c.objects, nil); err != nil {
		return loadError(err)
	}
	if c.ring, err = ringbuf.NewReader(c.objects.Packets); err != nil {
		return err
	}
	for i, p := range points {
		program, priority := c.objects.Leaving, uint16(priorityBefore)
		if p.Direction == ToHost {
			program, priority = c.objects.Arriving, priorityAfter
		}
		h := hook{c.lab.network.ns, p.Device.Link.port, p.Direction, priority}
		if err := h.attach(program); err != nil {
			return err
		}
		c.hooks = append(c.hooks, h)
		c.points[uint16(p.Device.Link.lane(p.Direction))] = i
	}
	return nil
}

// Stop ends the recording and returns the packets in the order in which they passed. An error means that some are missing.
func (c *Capture) Stop() ([]Packet, error) {
	err := c.unhook()
	close(c.stop)
	<-c.done
	var overflow uint64
	if lost := c.objects.Overflow.Get(&overflow); lost == nil && overflow > 0 {
		err = errors.Join(err, fmt.Errorf("%d packets found the buffer full", overflow))
	}
	if err = errors.Join(err, c.err, c.detach()); err != nil {
		err = fmt.Errorf("lab: capture: %w", err)
	}
	return c.Packets(), err
}

// Packets returns what has been recorded until now, in the order in which the packets passed.
func (c *Capture) Packets() []Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sortedByTime(slices.Clone(c.packets))
}

// unhook takes the programs from their points.
func (c *Capture) unhook() (err error) {
	for _, h := range c.hooks {
		err = errors.Join(err, h.detach())
	}
	c.hooks = nil
	return err
}

func (c *Capture) detach() error {
	err := c.unhook()
	if c.ring != nil {
		err = errors.Join(err, c.ring.Close())
	}
	return errors.Join(err, c.objects.Close())
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

// drain takes what is in the ring now.
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
		c.packets = append(c.packets, c.parse(record.RawSample))
	}
}

// parse reads struct packet of bpf/capture.bpf.c.
func (c *Capture) parse(b []byte) Packet {
	var p capturePacket
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&p)), unsafe.Sizeof(p)), b)
	return Packet{
		Time:   time.Duration(p.Time),
		Hash:   p.Hash,
		Length: int(p.Length),
		Point:  c.points[p.Lane],
		Flow:   Flow{Source: endpoint(p.Source, p.SourcePort), Target: endpoint(p.Target, p.TargetPort)},
	}
}

func endpoint(address [16]byte, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(address).Unmap(), port)
}
