package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/lab/bpf"
	"sluice/lab/netns"
)

const (
	// HeaderLength is the length of the header in front of each frame that comes from the kernel.
	HeaderLength    = int(unsafe.Sizeof(bpf.LinkWireHeader{}))
	vlanTagLength   = 4
	addressesLength = 12 // both Ethernet addresses, which a VLAN tag follows
	deviceName      = "wire"
	queueLength     = 20_000 // frames that wait for the thread to read them
	batch           = 16     // frames to read before the due ones leave
)

// Wire is a TAP device and the thread that serves it.
type Wire struct {
	Index int // of the device

	tap  *os.File
	stop int // eventfd
	done chan struct{}

	mu   sync.Mutex // held while the thread handles frames, not while it waits; guards line
	line *delayLine

	free []*frame // used by the thread alone
}

// New makes the device in a namespace and starts the thread.
func New(network *netns.Namespace) (*Wire, error) {
	w := &Wire{line: newDelayLine(), done: make(chan struct{})}
	err := network.Do(func() (err error) {
		w.tap, err = openTAP(deviceName)
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
		const what = "TAP devices (/dev/net/tun, CONFIG_TUN, module tun), which delay and reordering need"
		return nil, netns.Missing(what, err)
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

func (w *Wire) bringUp(network *netns.Namespace) (err error) {
	device, err := network.Netlink.LinkByName(deviceName)
	if err != nil {
		return err
	}
	w.Index = device.Attrs().Index
	if w.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return err
	}
	return errors.Join(
		network.Netlink.LinkSetTxQLen(device, queueLength),
		network.Netlink.LinkSetMTU(device, netns.MTU+vlanTagLength+HeaderLength),
		network.Netlink.LinkSetUp(device))
}

// Configure sets the delay of frames that enter a lane from now on, how many frames overtake a reordered one, and how
// long it waits for them.
func (w *Wire) Configure(lane uint16, delay time.Duration, gap int, hold time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line.configure(lane, delay, gap, hold)
}

// Close removes the device and ends the thread.
func (w *Wire) Close() {
	unix.Write(w.stop, binary.NativeEndian.AppendUint64(nil, 1))
	<-w.done
	unix.Close(w.stop)
	w.tap.Close()
}

// run is the thread. It ends with the thread locked, so that no other goroutine runs in its scheduling class.
func (w *Wire) run() {
	defer close(w.done)
	runtime.LockOSThread()
	raisePriority()
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

// raisePriority makes the calling thread run as soon as it wakes up, as far as this process may.
func raisePriority() {
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if unix.SchedSetAttr(0, &attr, 0) != nil {
		unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20)
	}
}

func (w *Wire) untilNext() *unix.Timespec {
	w.mu.Lock()
	leave, ok := w.line.next()
	w.mu.Unlock()
	if !ok {
		return nil
	}
	wait := unix.NsecToTimespec(max(0, leave-monotonic()))
	return &wait
}

// turn reads frames in batches and writes the frames that are due, until there is none to read.
func (w *Wire) turn(tap int) {
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
		if read < batch {
			return
		}
	}
}

func (w *Wire) receive(tap int) (read int) {
	for ; read < batch; read++ {
		f := w.take()
		n, err := unix.Read(tap, f.data[:])
		if err != nil || n < HeaderLength+addressesLength {
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
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&h)), HeaderLength), f.data[:])
	f.start, f.end = HeaderLength-vlanTagLength, n
	copy(f.data[f.start:], f.data[HeaderLength:HeaderLength+addressesLength])
	binary.BigEndian.PutUint16(f.data[f.start+addressesLength:], unix.ETH_P_8021Q)
	binary.BigEndian.PutUint16(f.data[f.start+addressesLength+2:], h.Lane)
	return int64(h.Time), h.Lane, h.Reordered != 0
}

func (w *Wire) send(tap int, f *frame) {
	unix.Write(tap, f.data[f.start:f.end]) // lab.LinkStats.Returned counts the frames that the kernel took
	w.free = append(w.free, f)
}

func (w *Wire) take() *frame {
	if last := len(w.free) - 1; last >= 0 {
		f := w.free[last]
		w.free = w.free[:last]
		return f
	}
	return new(frame)
}

// monotonic returns the time on the clock of bpf_ktime_get_ns.
func monotonic() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // every Linux has this clock
	return ts.Nano()
}
