package flood

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// AwaitMonitor waits until something watches a device of this thread's network namespace: BPF programs at both hooks,
// or a packet socket.
func AwaitMonitor(ctx context.Context, name string) error {
	device, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for {
		sockets, err := os.ReadFile("/proc/thread-self/net/packet")
		if err != nil {
			return err
		}
		if bytes.Count(sockets, []byte("\n")) > 1 || // the first line is a heading
			attached(device, ebpf.AttachTCXIngress, netlink.HANDLE_MIN_INGRESS) &&
				attached(device, ebpf.AttachTCXEgress, netlink.HANDLE_MIN_EGRESS) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for a monitor at %s: %w", name, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// attached reports whether a device has a program at a hook, by TCX or clsact.
func attached(device netlink.Link, hook ebpf.AttachType, clsact uint32) bool {
	q, err := link.QueryPrograms(link.QueryOptions{Target: device.Attrs().Index, Attach: hook})
	if err == nil && len(q.Programs) > 0 {
		return true
	}
	filters, err := netlink.FilterList(device, clsact)
	return err == nil && len(filters) > 0
}
