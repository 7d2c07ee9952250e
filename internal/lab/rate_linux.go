package lab

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	mtu         = 1500
	frameLength = mtu + 14
)

// setRate installs, changes or removes the token bucket in front of a device.
func (n *namespace) setRate(device netlink.Link, c Conditions) error {
	root := netlink.QdiscAttrs{LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
		Parent: netlink.HANDLE_ROOT}
	if c.Rate == 0 {
		err := n.nl.QdiscDel(&netlink.Tbf{QdiscAttrs: root})
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("remove the rate limit: %w", err)
		}
		return nil
	}
	burst, limit := bucket(c)
	rate := uint64(c.Rate) / 8
	tbf := &netlink.Tbf{QdiscAttrs: root, Rate: rate, Limit: limit, Buffer: netlink.Xmittime(rate, burst)}
	if err := n.nl.QdiscReplace(tbf); err != nil {
		return missing("the token bucket filter (CONFIG_NET_SCH_TBF, module sch_tbf)", err)
	}
	return nil
}

// bucket returns the sizes in bytes of the burst that may pass at once and of the queue behind it. A burst of 1 ms lets
// the kernel's timer be late without losing rate; two frames are the least with which a token bucket keeps its rate.
func bucket(c Conditions) (burst, limit uint32) {
	bytes := func(d time.Duration) uint32 {
		return uint32(min(float64(c.Rate)/8*d.Seconds(), math.MaxInt32))
	}
	return max(bytes(time.Millisecond), 2*frameLength), max(bytes(c.queue()), 2*frameLength)
}

// rateDrops returns how many packets did not fit the queue in front of a device.
func (n *namespace) rateDrops(device netlink.Link) (uint64, error) {
	qdiscs, err := n.nl.QdiscList(device)
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
