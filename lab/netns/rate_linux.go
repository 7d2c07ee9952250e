package netns

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// MTU is the MTU of all devices of hosts.
	MTU         = 1500
	frameLength = MTU + 14
)

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

// bucket returns the sizes in bytes of the burst that may pass at once and of the queue behind it. With a burst of 1 ms
// the rate is kept although the kernel's timer may be late. A token bucket needs two frames to keep its rate.
func bucket(rate uint64, queue time.Duration) (burst, limit uint32) {
	bytes := func(d time.Duration) uint32 {
		return uint32(min(float64(rate)/8*d.Seconds(), math.MaxInt32))
	}
	return max(bytes(time.Millisecond), 2*frameLength), max(bytes(queue), 2*frameLength)
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
