package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

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
func New() (*Namespace, error) {
	n := new(Namespace)
	err := onThread(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() (err error) {
		n.File, err = os.Open(ownNamespace)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
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
func (n *Namespace) Inode() (uint64, error) { return inode(n.File.Name(), n.File.Stat) }

// OwnInode returns the number of the namespace of this process.
func OwnInode() (uint64, error) {
	return inode(ownNamespace, func() (os.FileInfo, error) { return os.Stat(ownNamespace) })
}

func inode(name string, stat func() (os.FileInfo, error)) (uint64, error) {
	info, err := stat()
	if err != nil {
		return 0, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s has no inode", name)
	}
	return s.Ino, nil
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
