package netns

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Segmentation are the device features that make packets on a veth differ from packets on a cable: with them a burst
// of a sender that uses UDP GSO or TCP crosses the lab as one packet of up to 64 KB.
var Segmentation = []string{
	"tx-generic-segmentation", "tx-udp-segmentation", "tx-gso-list",
	"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation",
	"rx-gro", "rx-gro-list", "rx-udp-gro-forwarding",
}

// Checksum is the device feature that computes checksums on transmission.
var Checksum = []string{"tx-checksum-ip-generic"}

// Disable turns features of a device off (ETHTOOL_MSG_FEATURES_SET). The kernel refuses a request that has an unknown
// name, so each feature has a request of its own, and an unknown feature counts as off.
func (n *Namespace) Disable(device string, features []string) error {
	return n.Do(func() error {
		family, err := netlink.GenlFamilyGet("ethtool")
		if err != nil {
			return fmt.Errorf("find ethtool's netlink family (kernel 5.6, CONFIG_ETHTOOL_NETLINK): %w", err)
		}
		for _, feature := range features {
			if err := disableFeature(family.ID, device, feature); err != nil && err != unix.EOPNOTSUPP {
				return fmt.Errorf("turn %s of %s off: %w", feature, device, err)
			}
		}
		return nil
	})
}

func disableFeature(family uint16, device, feature string) error {
	req := nl.NewNetlinkRequest(int(family), unix.NLM_F_ACK)
	req.AddData(&nl.Genlmsg{Command: unix.ETHTOOL_MSG_FEATURES_SET, Version: 1})

	header := nl.NewRtAttr(unix.ETHTOOL_A_FEATURES_HEADER|unix.NLA_F_NESTED, nil)
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_DEV_NAME, nl.ZeroTerminated(device))
	req.AddData(header)

	// A bit that is named without ETHTOOL_A_BITSET_BIT_VALUE is cleared.
	wanted := nl.NewRtAttr(unix.ETHTOOL_A_FEATURES_WANTED|unix.NLA_F_NESTED, nil)
	bits := wanted.AddRtAttr(unix.ETHTOOL_A_BITSET_BITS|unix.NLA_F_NESTED, nil)
	bit := bits.AddRtAttr(unix.ETHTOOL_A_BITSET_BITS_BIT|unix.NLA_F_NESTED, nil)
	bit.AddRtAttr(unix.ETHTOOL_A_BITSET_BIT_NAME, nl.ZeroTerminated(feature))
	req.AddData(wanted)

	_, err := req.Execute(unix.NETLINK_GENERIC, 0)
	return err
}
