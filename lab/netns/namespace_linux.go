package netns

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	handle "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace without a name. It ends with the last process that holds it, so a lab whose
// process was killed leaves nothing to clean up.
type Namespace struct {
	File    *os.File        // holds it
	Netlink *netlink.Handle // configures it
}

const ownNamespace = "/proc/thread-self/ns/net"

// New makes a namespace.
func New() (n *Namespace, err error) {
	err = onThread(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() (err error) {
		n, err = OfThread()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return n, nil
}

// OfThread returns the namespace of this thread.
func OfThread() (*Namespace, error) {
	n := new(Namespace)
	var err error
	if n.File, err = os.Open(ownNamespace); err != nil {
		return nil, err
	}
	if n.Netlink, err = netlink.NewHandleAt(handle.NsHandle(n.File.Fd()), unix.NETLINK_ROUTE); err != nil {
		n.File.Close()
		return nil, fmt.Errorf("open netlink in the namespace: %w", err)
	}
	return n, nil
}

// Do runs fn on a thread that is inside the namespace. Goroutines that fn starts are outside.
func (n *Namespace) Do(fn func() error) error {
	return onThread(func() error { return unix.Setns(int(n.File.Fd()), unix.CLONE_NEWNET) }, fn)
}

// Inode returns the number by which the kernel's programs know the namespace.
func (n *Namespace) Inode() (uint64, error) {
	var s unix.Stat_t
	err := unix.Fstat(int(n.File.Fd()), &s)
	return s.Ino, err
}

// OwnInode returns the number of the namespace of this process.
func OwnInode() (uint64, error) {
	var s unix.Stat_t
	err := unix.Stat(ownNamespace, &s)
	return s.Ino, err
}

// Close releases the namespace.
func (n *Namespace) Close() {
	n.Netlink.Close()
	n.File.Close()
}

// onThread runs fn on the caller's goroutine after enter has moved its thread into another network namespace, and moves
// the thread back.
func onThread(enter, fn func() error) (err error) {
	runtime.LockOSThread()
	home, err := os.Open(ownNamespace)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	defer func() {
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			// The thread stays locked, so that it ends with this goroutine and nothing else ever runs on it.
			err = fmt.Errorf("return to the original network namespace: %w", back)
			return
		}
		runtime.UnlockOSThread()
	}()
	if err := enter(); err != nil {
		return err
	}
	return fn()
}

// Up brings a device up.
func (n *Namespace) Up(device string) error {
	link, err := n.Netlink.LinkByName(device)
	if err == nil {
		err = n.Netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("bring %s up: %w", device, err)
	}
	return nil
}

// Sysctl sets parameters below /proc/sys/net.
func (n *Namespace) Sysctl(values map[string]string) error {
	return n.Do(func() error {
		for name, value := range values {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644); err != nil {
				return Missing("IPv6 in the kernel", err)
			}
		}
		return nil
	})
}

// bridgeNetfilter are parameters that exist where the module br_netfilter is loaded.
const bridgeNetfilter = "bridge/bridge-nf-call-*tables"

// AddBridge adds a bridge and brings it up. Bridges of the namespace do not show their packets to netfilter.
func (n *Namespace) AddBridge(name string) (*netlink.Bridge, error) {
	snooping := false
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	if err := n.Netlink.LinkAdd(bridge); err != nil {
		return nil, Missing("bridges (CONFIG_BRIDGE, module bridge)", err)
	}
	if err := n.Netlink.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("bring the bridge %s up: %w", name, err)
	}
	return bridge, n.skipNetfilter()
}

func (n *Namespace) skipNetfilter() error {
	return n.Do(func() error {
		files, err := filepath.Glob("/proc/sys/net/" + bridgeNetfilter)
		for _, file := range files {
			err = errors.Join(err, os.WriteFile(file, []byte("0"), 0o644))
		}
		return err
	})
}

// AddHooks prepares a device for hooks. It may be called again.
func (n *Namespace) AddHooks(device netlink.Link) error {
	err := n.Netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return Missing("the clsact queue (CONFIG_NET_SCH_INGRESS, module sch_ingress)", err)
	}
	return nil
}

// SetFeatures turns features of a device on or off. An unknown feature counts as off.
func (n *Namespace) SetFeatures(device string, features []string, on bool) error {
	return n.Do(func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer e.Close()
		known, err := e.FeatureNames(device)
		if err != nil {
			return fmt.Errorf("read the features of %s: %w", device, err)
		}
		change := make(map[string]bool)
		for _, f := range features {
			if _, ok := known[f]; ok || on {
				change[f] = on
			}
		}
		if err := e.Change(device, change); err != nil {
			return fmt.Errorf("change features of %s: %w", device, err)
		}
		return nil
	})
}

// SetRate installs, changes or removes the token bucket in front of a device. rate is in bits a second, 0 for no limit;
// queue is how long a packet may wait before it is dropped.
func (n *Namespace) SetRate(device netlink.Link, rate uint64, queue time.Duration) error {
	root := netlink.QdiscAttrs{LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
		Parent: netlink.HANDLE_ROOT}
	if rate == 0 {
		err := n.Netlink.QdiscDel(&netlink.Tbf{QdiscAttrs: root})
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("remove the rate limit: %w", err)
		}
		return nil
	}
	burst, limit := bucket(rate, queue)
	rate /= 8 // bytes
	tbf := &netlink.Tbf{QdiscAttrs: root, Rate: rate, Limit: limit, Buffer: netlink.Xmittime(rate, burst)}
	if err := n.Netlink.QdiscReplace(tbf); err != nil {
		return Missing("the token bucket filter (CONFIG_NET_SCH_TBF, module sch_tbf)", err)
	}
	return nil
}

// RateDrops returns how many packets did not fit the queue in front of a device.
func (n *Namespace) RateDrops(device netlink.Link) (uint64, error) {
	qdiscs, err := n.Netlink.QdiscList(device)
	if err != nil {
		return 0, fmt.Errorf("list queues: %w", err)
	}
	for _, q := range qdiscs {
		if s := q.Attrs().Statistics; q.Type() == "tbf" && s != nil && s.Queue != nil {
			return uint64(s.Queue.Drops), nil
		}
	}
	return 0, nil
}

const (
	// MTU is the MTU of all devices of hosts.
	MTU         = 1500
	frameLength = MTU + 14
)

// bucket returns the sizes in bytes of the burst that may pass at once and of the queue behind it. With a burst of 1 ms
// the rate is kept although the kernel's timer may be late. A token bucket needs two frames to keep its rate.
func bucket(rate uint64, queue time.Duration) (burst, limit uint32) {
	bytes := func(d time.Duration) uint32 {
		return uint32(min(float64(rate)/8*d.Seconds(), math.MaxInt32))
	}
	return max(bytes(time.Millisecond), 2*frameLength), max(bytes(queue), 2*frameLength)
}

// Segmentation are the device features that make packets on a veth differ from packets on a cable: with them a burst
// of a sender that uses UDP GSO or TCP crosses the lab as one packet of up to 64 KB.
var Segmentation = []string{
	"tx-generic-segmentation", "tx-udp-segmentation", "tx-gso-list",
	"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation",
	"rx-gro", "rx-gro-list", "rx-udp-gro-forwarding",
}

// UDPSegmentation is the device feature with which a burst of a sender that uses UDP GSO reaches the device as one
// packet.
var UDPSegmentation = []string{"tx-udp-segmentation"}

// Checksum is the device feature that computes checksums on transmission.
var Checksum = []string{"tx-checksum-ip-generic"}
