package trial

import "github.com/safchain/ethtool"

// offloads are the features of a device that fill in checksums, or join or cut packets, by the kernel's names.
var offloads = map[string][]string{
	"tx-checksum":          {"tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"},
	"rx-checksum":          {"rx-checksum"},
	"tcp-segmentation":     {"tx-tcp-segmentation"},
	"generic-segmentation": {"tx-generic-segmentation"},
	"generic-receive":      {"rx-gro"},
}

// ReadOffloads returns the features of a device.
func ReadOffloads(device string) (map[string]string, error) {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return nil, err
	}
	defer e.Close()
	on, err := e.Features(device)
	features := make(map[string]string)
	for name, kernel := range offloads {
		features[name] = "off"
		for _, k := range kernel {
			if on[k] {
				features[name] = "on"
			}
		}
	}
	return features, err
}
