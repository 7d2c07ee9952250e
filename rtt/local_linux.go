package rtt

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"sluice/rtt/attach"
	"sluice/rtt/bpf"
)

// localAddresses keeps the kernel's table of this host's addresses up to date.
type localAddresses struct {
	table  *ebpf.Map
	logger *slog.Logger
	done   chan struct{}
}

func followLocalAddresses(table *ebpf.Map, logger *slog.Logger) (io.Closer, error) {
	l := &localAddresses{table: table, logger: logger, done: make(chan struct{})}
	updates := make(chan netlink.AddrUpdate)
	// Subscribed before the list is read: an address that is added in between is seen twice, not missed.
	options := netlink.AddrSubscribeOptions{ReceiveBufferSize: attach.NewsBuffer, ReceiveBufferForceSize: true}
	if err := netlink.AddrSubscribeWithOptions(updates, l.done, options); err != nil {
		return nil, fmt.Errorf("watch addresses: %w", err)
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		close(l.done)
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		l.set(a.IP, true)
	}
	go func() {
		for u := range updates {
			l.set(u.LinkAddress.IP, u.NewAddr)
		}
	}()
	return l, nil
}

func (l *localAddresses) Close() error {
	close(l.done)
	return nil
}

func (l *localAddresses) set(ip net.IP, there bool) {
	addr, ok := netip.AddrFromSlice(ip)
	if !ok {
		return
	}
	key := bpf.MonitorAddress{Bytes: addr.As16()}
	if !there {
		_ = l.table.Delete(key) // fails if it is not there
		return
	}
	if err := l.table.Put(key, uint8(1)); err != nil {
		l.logger.Warn("packets to an address of this host are measured like others", "address", addr, "err", err)
	}
}
