package netns

import (
	"fmt"

	"github.com/safchain/ethtool"
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

func (n *Namespace) setFeatures(device string, features []string, on bool) error {
	return n.Do(func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer e.Close()
		known, err := e.FeatureNames(device)
		if err != nil {
			return fmt.Errorf("read the features of %s: %w", device, err)
		}
		change := make(map[string]bool)
		for _, f := range features {
			if _, ok := known[f]; ok || on {
				change[f] = on
			}
		}
		if err := e.Change(device, change); err != nil {
			return fmt.Errorf("change features of %s: %w", device, err)
		}
		return nil
	})
}
