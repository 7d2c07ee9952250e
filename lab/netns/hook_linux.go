package netns

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Hook is a place for a program on a device. The program is a classifier of TC rather than a TCX link, so that the
// lab also runs on the kernel of Debian 12 (6.1).
type Hook struct {
	Namespace *Namespace
	Device    netlink.Link
	Parent    uint32 // HANDLE_MIN_INGRESS or HANDLE_MIN_EGRESS
	Priority  uint16
}

// Priorities on one hook: a capture sees packets after the conditions of a link.
const (
	PriorityLink = 1 + iota
	PriorityCapture
)

// Attach attaches a program.
func (h Hook) Attach(program *ebpf.Program) error {
	filter := &netlink.BpfFilter{FilterAttrs: h.attrs(), Fd: program.FD(), Name: "sluice-lab", DirectAction: true}
	if err := h.Namespace.Netlink.FilterAdd(filter); err != nil {
		return Missing("BPF classifiers (CONFIG_NET_CLS_BPF, module cls_bpf)", err)
	}
	return nil
}

// Detach takes the program away.
func (h Hook) Detach() error {
	if err := h.Namespace.Netlink.FilterDel(&netlink.BpfFilter{FilterAttrs: h.attrs()}); err != nil {
		return fmt.Errorf("detach from %s: %w", h.Device.Attrs().Name, err)
	}
	return nil
}

func (h Hook) attrs() netlink.FilterAttrs {
	return netlink.FilterAttrs{LinkIndex: h.Device.Attrs().Index, Parent: h.Parent, Handle: 1,
		Protocol: unix.ETH_P_ALL, Priority: h.Priority}
}
