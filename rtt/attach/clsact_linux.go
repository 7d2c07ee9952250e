package attach

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// clsact is a program in the clsact qdisc, the hook of kernels without TCX. Unlike a TCX link, the program stays when
// the process is killed. The next monitor of the same interface replaces it.
type clsact struct {
	handle *netlink.Handle
	filter *netlink.BpfFilter
}

// A priority and a handle that other programs are unlikely to use.
const (
	clsactPriority = 0xe1a7
	clsactHandle   = 1
)

func attachClsact(p *ebpf.Program, d Device, egress bool) (io.Closer, error) {
	// The handle stays in this network namespace, whichever thread closes it.
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	parent := uint32(netlink.HANDLE_MIN_INGRESS)
	if egress {
		parent = netlink.HANDLE_MIN_EGRESS
	}
	c := &clsact{handle: h, filter: &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: d.Index,
			Parent:    parent,
			Handle:    clsactHandle,
			Protocol:  unix.ETH_P_ALL,
			Priority:  clsactPriority,
		},
		Fd:           p.FD(),
		Name:         "sluice-rtt",
		DirectAction: true,
	}}
	if err := c.attach(d); err != nil {
		h.Close()
		return nil, err
	}
	return c, nil
}

func (c *clsact) attach(d Device) error {
	qdisc := &netlink.GenericQdisc{QdiscType: "clsact", QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: d.Index,
		Handle:    netlink.MakeHandle(0xffff, 0),
		Parent:    netlink.HANDLE_CLSACT,
	}}
	if err := c.handle.QdiscAdd(qdisc); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add the clsact qdisc: %w", err)
	}
	if err := c.handle.FilterReplace(c.filter); err != nil {
		return fmt.Errorf("add the clsact filter: %w", err)
	}
	return nil
}

// Close removes the filter. The qdisc stays: others may use it.
func (c *clsact) Close() error {
	defer c.handle.Close()
	err := c.handle.FilterDel(c.filter)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		return nil // the interface is gone
	}
	return err
}
