package netns

import (
	"encoding/binary"
	"errors"
	"fmt"

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

// UDPSegmentation is the device feature with which a burst of a sender that uses UDP GSO reaches the device as one
// packet.
var UDPSegmentation = []string{"tx-udp-segmentation"}

// Checksum is the device feature that computes checksums on transmission.
var Checksum = []string{"tx-checksum-ip-generic"}

// Disable turns features of a device off. An unknown feature counts as off.
func (n *Namespace) Disable(device string, features []string) error {
	return n.setFeatures(device, features, false)
}

// Enable turns features of a device on.
func (n *Namespace) Enable(device string, features []string) error {
	return n.setFeatures(device, features, true)
}

// setFeatures turns features on or off (ETHTOOL_MSG_FEATURES_SET). The kernel refuses a request that has an unknown
// name, so each feature has a request of its own.
func (n *Namespace) setFeatures(device string, features []string, on bool) error {
	return n.Do(func() error {
		family, err := familyID("ethtool")
		if err != nil {
			return fmt.Errorf("find ethtool's netlink family (kernel 5.6, CONFIG_ETHTOOL_NETLINK): %w", err)
		}
		for _, feature := range features {
			if err := setFeature(family, device, feature, on); err != nil && (on || err != unix.EOPNOTSUPP) {
				return fmt.Errorf("set %s of %s to %v: %w", feature, device, on, err)
			}
		}
		return nil
	})
}

// genericHeader is struct genlmsghdr. The library's has no reserved bytes but sends them: it reads two bytes of
// whatever is beside it in memory, which the race detector reports.
type genericHeader struct{ command, version uint8 }

func (h genericHeader) Len() int          { return nl.SizeofGenlmsg }
func (h genericHeader) Serialize() []byte { return []byte{h.command, h.version, 0, 0} }

// familyID returns the number of a generic netlink family.
func familyID(name string) (uint16, error) {
	req := nl.NewNetlinkRequest(nl.GENL_ID_CTRL, 0)
	req.AddData(genericHeader{command: nl.GENL_CTRL_CMD_GETFAMILY, version: nl.GENL_CTRL_VERSION})
	req.AddData(nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(name)))
	answers, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return 0, err
	}
	for _, a := range answers {
		attributes, err := nl.ParseRouteAttr(a[nl.SizeofGenlmsg:])
		if err != nil {
			return 0, err
		}
		for _, attribute := range attributes {
			if attribute.Attr.Type == nl.GENL_CTRL_ATTR_FAMILY_ID {
				return binary.NativeEndian.Uint16(attribute.Value), nil
			}
		}
	}
	return 0, errors.New("the answer has no number")
}

func setFeature(family uint16, device, feature string, on bool) error {
	req := nl.NewNetlinkRequest(int(family), unix.NLM_F_ACK)
	req.AddData(genericHeader{command: unix.ETHTOOL_MSG_FEATURES_SET, version: 1})

	header := nl.NewRtAttr(unix.ETHTOOL_A_FEATURES_HEADER|unix.NLA_F_NESTED, nil)
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_DEV_NAME, nl.ZeroTerminated(device))
	req.AddData(header)

	// A bit that is named without ETHTOOL_A_BITSET_BIT_VALUE is cleared.
	wanted := nl.NewRtAttr(unix.ETHTOOL_A_FEATURES_WANTED|unix.NLA_F_NESTED, nil)
	bits := wanted.AddRtAttr(unix.ETHTOOL_A_BITSET_BITS|unix.NLA_F_NESTED, nil)
	bit := bits.AddRtAttr(unix.ETHTOOL_A_BITSET_BITS_BIT|unix.NLA_F_NESTED, nil)
	bit.AddRtAttr(unix.ETHTOOL_A_BITSET_BIT_NAME, nl.ZeroTerminated(feature))
	if on {
		bit.AddRtAttr(unix.ETHTOOL_A_BITSET_BIT_VALUE, nil)
	}
	req.AddData(wanted)

	_, err := req.Execute(unix.NETLINK_GENERIC, 0)
	return err
}
