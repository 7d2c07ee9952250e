package bench

import (
	"sluice/internal/bench/result"
)

// Variants of a load: which cipher clients offer first, and who cuts the bursts of senders that use UDP GSO. The first
// of each is what stock clients and network cards do.
var (
	ciphers       = []string{result.CipherAES, result.CipherChaCha20}
	segmentations = []string{result.ByDevices, result.ByHosts}
)

// variant is a cipher and a segmentation. Machines of their own have the segmentation that they were set up with: "".
type variant struct{ cipher, segmentation string }

// named returns the name and the title of a scenario, with the settings of its variant that are not usual.
func named(name, title string, p result.Params) (string, string) {
	if p.Cipher != "" && p.Cipher != ciphers[0] {
		name, title = name+"/"+p.Cipher, title+", "+p.Cipher+" offered first"
	}
	if p.Link == "" && p.Segmentation != "" && p.Segmentation != segmentations[0] {
		name, title = name+"/by-"+p.Segmentation, title+", segmentation by "+p.Segmentation
	}
	return name, title
}
