package lab

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hook is a place for a program on a device of the network host: ingress is where packets come from the host beyond.
// It is a classifier of TC rather than a TCX link, so that the lab also runs on the kernel of Debian 12 (6.1).
type hook struct {
	ns       *namespace
	device   netlink.Link
	parent   uint32 // HANDLE_MIN_INGRESS or HANDLE_MIN_EGRESS
	priority uint16
}

// Priorities on one hook: a capture sees packets after the conditions of a link.
const (
	priorityLink = 1 + iota
	priorityCapture
)

// addHooks prepares a device for hooks. It may be called again.
func (n *namespace) addHooks(device netlink.Link) error {
	err := n.nl.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return missing("the clsact queue (CONFIG_NET_SCH_INGRESS, module sch_ingress)", err)
	}
	return nil
}

func (h hook) attach(program *ebpf.Program) error {
	filter := &netlink.BpfFilter{FilterAttrs: h.attrs(), Fd: program.FD(), Name: "sluice-lab", DirectAction: true}
	if err := h.ns.nl.FilterAdd(filter); err != nil {
		return missing("BPF classifiers (CONFIG_NET_CLS_BPF, module cls_bpf)", err)
	}
	return nil
}

func (h hook) detach() error {
	if err := h.ns.nl.FilterDel(&netlink.BpfFilter{FilterAttrs: h.attrs()}); err != nil {
		return fmt.Errorf("detach from %s: %w", h.device.Attrs().Name, err)
	}
	return nil
}

func (h hook) attrs() netlink.FilterAttrs {
	return netlink.FilterAttrs{LinkIndex: h.device.Attrs().Index, Parent: h.parent, Handle: 1,
		Protocol: unix.ETH_P_ALL, Priority: h.priority}
}
