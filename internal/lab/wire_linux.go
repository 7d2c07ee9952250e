package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/internal/lab/bpf"
)

const (
	wireHeaderLength = int(unsafe.Sizeof(bpf.LinkWireHeader{}))
	vlanTagLength    = 4
	addressesLength  = 12 // both Ethernet addresses, which a VLAN tag follows
	wireName         = "wire"
	wireQueue        = 20_000 // frames that wait for the thread to read them
	wireBatch        = 16     // frames read before those that are due leave
)

// wire holds packets back in userspace: a TAP device in the network host, and one thread that reads frames and writes
// them again when they are due. It serves kernels without netem, and its delay counts from the BPF program's timestamp
// rather than from when the thread ran.
type wire struct {
	tap   *os.File
	index int // of the device
	stop  int // eventfd
	done  chan struct{}

	mu   sync.Mutex // held while the thread handles frames, not while it waits
	line *delayLine

	free []*frame // of the thread
}

func newWire(network *namespace) (*wire, error) {
	w := &wire{line: newDelayLine(), done: make(chan struct{})}
	err := network.do(func() (err error) {
		w.tap, err = openTAP(wireName)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := w.bringUp(network); err != nil {
		w.tap.Close()
		return nil, fmt.Errorf("start the wire: %w", err)
	}
	go w.run()
	return w, nil
}

func openTAP(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, missing("TAP devices (/dev/net/tun, CONFIG_TUN, module tun), which delay and reordering need", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make a TAP device: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (w *wire) bringUp(network *namespace) (err error) {
	device, err := network.nl.LinkByName(wireName)
	if err != nil {
		return err
	}
	w.index = device.Attrs().Index
	if w.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return err
	}
	return errors.Join(
		network.nl.LinkSetTxQLen(device, wireQueue),
		network.nl.LinkSetMTU(device, mtu+vlanTagLength+wireHeaderLength),
		network.nl.LinkSetUp(device))
}

func (w *wire) configure(lane uint16, c Conditions) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line.configure(lane, c.Delay, c.reorderGap(), c.hold())
}

func (w *wire) close() {
	unix.Write(w.stop, binary.NativeEndian.AppendUint64(nil, 1))
	<-w.done
	unix.Close(w.stop)
	w.tap.Close()
}

// run is the thread. It ends with its thread locked, because the thread's scheduling class is nobody else's.
func (w *wire) run() {
	defer close(w.done)
	runtime.LockOSThread()
	hurry()
	tap := int(w.tap.Fd())
	unix.SetNonblock(tap, true) // Fd made it blocking
	polled := []unix.PollFd{{Fd: int32(tap), Events: unix.POLLIN}, {Fd: int32(w.stop), Events: unix.POLLIN}}
	for polled[0].Revents&unix.POLLERR == 0 && polled[1].Revents == 0 {
		if _, err := unix.Ppoll(polled, w.untilNext(), nil); err != nil && err != unix.EINTR {
			return
		}
		w.turn(tap)
	}
}

// hurry makes the calling thread run as soon as it wakes up, as far as this process may.
func hurry() {
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if unix.SchedSetAttr(0, &attr, 0) != nil {
		unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20)
	}
}

func (w *wire) untilNext() *unix.Timespec {
	w.mu.Lock()
	leave, ok := w.line.next()
	w.mu.Unlock()
	if !ok {
		return nil
	}
	wait := unix.NsecToTimespec(max(0, leave-monotonic()))
	return &wait
}

// turn reads a batch of frames and writes what is due, until there is nothing to read.
func (w *wire) turn(tap int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		read := w.receive(tap)
		for now := monotonic(); ; {
			f := w.line.due(now)
			if f == nil {
				break
			}
			w.send(tap, f)
		}
		if read < wireBatch {
			return
		}
	}
}

func (w *wire) receive(tap int) (read int) {
	for ; read < wireBatch; read++ {
		f := w.take()
		n, err := unix.Read(tap, f.data[:])
		if err != nil || n < wireHeaderLength+addressesLength {
			w.free = append(w.free, f)
			return read
		}
		at, lane, reordered := f.tag(n)
		if !w.line.arrive(f, lane, at, reordered) {
			w.free = append(w.free, f)
		}
	}
	return read
}

// tag replaces the header in front of a frame by the VLAN tag that names its lane.
func (f *frame) tag(n int) (at int64, lane uint16, reordered bool) {
	var h bpf.LinkWireHeader
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&h)), wireHeaderLength), f.data[:])
	f.start, f.end = wireHeaderLength-vlanTagLength, n
	copy(f.data[f.start:], f.data[wireHeaderLength:wireHeaderLength+addressesLength])
	binary.BigEndian.PutUint16(f.data[f.start+addressesLength:], unix.ETH_P_8021Q)
	binary.BigEndian.PutUint16(f.data[f.start+addressesLength+2:], h.Lane)
	return int64(h.Time), h.Lane, h.Reordered != 0
}

func (w *wire) send(tap int, f *frame) {
	unix.Write(tap, f.data[f.start:f.end]) // LinkStats.Returned counts those that the kernel took
	w.free = append(w.free, f)
}

func (w *wire) take() *frame {
	if last := len(w.free) - 1; last >= 0 {
		f := w.free[last]
		w.free = w.free[:last]
		return f
	}
	return new(frame)
}

// monotonic returns the clock of bpf_ktime_get_ns.
func monotonic() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // every Linux has this clock
	return ts.Nano()
}
