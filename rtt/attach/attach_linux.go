package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/rtt/bpf"
)

// Links are programs that are attached to the hooks of some devices.
type Links struct {
	closers []io.Closer
	devices []Device
	updates chan netlink.LinkUpdate
	done    chan struct{}
}

// NewsBuffer is how many bytes of news wait for a subscriber. The kernel ends the subscription when there are more: by
// default, after a hundred changes of interfaces at once.
const NewsBuffer = 8 << 20

// ProgramNames returns the names of the programs that the devices need.
func ProgramNames(hook Hook, devices []Device) []string {
	names := make(map[string]bool)
	for _, d := range devices {
		for _, p := range d.programs(hook) {
			names[p] = true
		}
	}
	var list []string
	for name := range names {
		list = append(list, name)
	}
	return list
}

// New attaches the programs to their hooks. After an error none is attached.
func New(programs map[string]*ebpf.Program, hook Hook, mode XDPMode, devices []Device) (*Links, error) {
	a := &Links{devices: devices, done: make(chan struct{}), updates: make(chan netlink.LinkUpdate)}
	// Subscribed before programs are attached: no interface disappears unnoticed.
	options := netlink.LinkSubscribeOptions{ReceiveBufferSize: NewsBuffer, ReceiveBufferForceSize: true}
	if err := netlink.LinkSubscribeWithOptions(a.updates, a.done, options); err != nil {
		return nil, fmt.Errorf("watch interfaces: %w", err)
	}
	for _, d := range devices {
		for _, name := range d.programs(hook) {
			egress := name == bpf.MonitorProgEgress || name == bpf.MonitorProgEgressIp
			c, err := attachOne(programs[name], hook, mode, egress, d)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("attach to %s: %w", d.Name, err), a.Close())
			}
			a.closers = append(a.closers, c)
		}
	}
	return a, nil
}

func attachOne(p *ebpf.Program, hook Hook, mode XDPMode, egress bool, d Device) (io.Closer, error) {
	if p.Type() == ebpf.XDP {
		return attachXDP(mode, p, d)
	}
	if hook == HookClsact {
		return attachClsact(p, d, egress)
	}
	// A program before ours may end the chain. Packets leave as they are after the last program.
	o := link.TCXOptions{Interface: d.Index, Program: p, Attach: ebpf.AttachTCXIngress, Anchor: link.Head()}
	if egress {
		o.Attach, o.Anchor = ebpf.AttachTCXEgress, link.Tail()
	}
	l, err := link.AttachTCX(o)
	if errors.Is(err, ebpf.ErrNotSupported) && hook != HookTCX {
		return attachClsact(p, d, egress)
	}
	return l, err
}

var xdpFlags = map[XDPMode]link.XDPAttachFlags{
	XDPUnspecified: 0, XDPNative: link.XDPDriverMode, XDPGeneric: link.XDPGenericMode,
}

func attachXDP(mode XDPMode, p *ebpf.Program, d Device) (io.Closer, error) {
	l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: d.Index, Flags: xdpFlags[mode]})
	switch {
	case errors.Is(err, unix.EBUSY):
		return nil, fmt.Errorf("another XDP program is there; use the tc hook: %w", err)
	case errors.Is(err, unix.EOPNOTSUPP) && mode == XDPNative:
		return nil, fmt.Errorf("its driver does not support XDP; use XDP mode generic or the tc hook: %w", err)
	}
	return l, err
}

// Filters reports whether programs are filters of a qdisc, which are removed by a request, and not with a descriptor.
func (a *Links) Filters() bool {
	return slices.ContainsFunc(a.closers, func(c io.Closer) bool {
		_, ok := c.(*clsact)
		return ok
	})
}

// Close detaches the programs.
func (a *Links) Close() error {
	var errs []error
	for _, c := range a.closers {
		errs = append(errs, c.Close())
	}
	a.closers = nil
	if a.done != nil {
		close(a.done)
		a.done = nil
	}
	return errors.Join(errs...)
}

// Watch logs interfaces that disappear. It returns an error when none is left.
func (a *Links) Watch(ctx context.Context, logger *slog.Logger) error {
	left := make(map[int32]string)
	for _, d := range a.devices {
		left[int32(d.Index)] = d.Name
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case u, ok := <-a.updates:
			if !ok {
				return errors.New("watch interfaces: the kernel ended the subscription")
			}
			name := left[u.Index]
			if name == "" || u.Header.Type != unix.RTM_DELLINK {
				continue
			}
			delete(left, u.Index)
			if len(left) == 0 {
				return fmt.Errorf("interface %s disappeared: nothing is left to watch", name)
			}
			logger.Warn("interface disappeared; the others are still watched", "interface", name)
		}
	}
}

// Promiscuous makes the devices take packets that are for others, as a mirror port has them, until Close.
func (a *Links) Promiscuous() error {
	for _, d := range a.devices {
		c, err := promiscuous(d)
		if err != nil {
			return fmt.Errorf("--promiscuous: interface %s: %w", d.Name, err)
		}
		a.closers = append(a.closers, c)
	}
	return nil
}
