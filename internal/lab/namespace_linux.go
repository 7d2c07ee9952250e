package lab

import (
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespace is a network namespace without a name: it ends with the last process that holds it, so that a lab whose
// process was killed leaves nothing to clean up.
type namespace struct {
	file *os.File
	nl   *netlink.Handle
}

const ownNamespace = "/proc/thread-self/ns/net"

func newNamespace() (*namespace, error) {
	n := new(namespace)
	err := onThread(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() (err error) {
		n.file, err = os.Open(ownNamespace)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	if n.nl, err = netlink.NewHandleAt(netns.NsHandle(n.file.Fd()), unix.NETLINK_ROUTE); err != nil {
		n.file.Close()
		return nil, fmt.Errorf("open netlink in the namespace: %w", err)
	}
	return n, nil
}

// do runs fn on a thread that is inside the namespace. Goroutines that fn starts are outside.
func (n *namespace) do(fn func() error) error {
	return onThread(func() error { return unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET) }, fn)
}

func (n *namespace) close() {
	n.nl.Close()
	n.file.Close()
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
