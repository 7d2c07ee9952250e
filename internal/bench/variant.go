package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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

// variants returns the variants to measure: the first of each, and each other one with the first of the others.
func (c RunConfig) variants() []variant {
	c = c.withDefaults()
	all := []variant{{c.Ciphers[0], ""}}
	if c.Machines == nil {
		all[0].segmentation = c.Segmentations[0]
	}
	for _, cipher := range c.Ciphers[1:] {
		all = append(all, variant{cipher, all[0].segmentation})
	}
	for _, segmentation := range c.Segmentations[1:] {
		all = append(all, variant{c.Ciphers[0], segmentation})
	}
	return all
}

// named returns the name and the title of a scenario with what is not usual about its variant.
func named(name, title string, p result.Params) (string, string) {
	if p.Cipher != "" && p.Cipher != ciphers[0] {
		name, title = name+"/"+p.Cipher, title+", "+p.Cipher+" offered first"
	}
	if p.Link == "" && p.Segmentation != "" && p.Segmentation != segmentations[0] {
		name, title = name+"/by-"+p.Segmentation, title+", segmentation by "+p.Segmentation
	}
	return name, title
}

// validateVariants returns an error if there are unknown variants.
func (c RunConfig) validateVariants() error {
	for _, f := range []struct {
		flag            string
		chosen, allowed []string
	}{{"--cipher", c.Ciphers, ciphers}, {"--segmentation", c.Segmentations, segmentations}} {
		for i, v := range f.chosen {
			if !slices.Contains(f.allowed, v) {
				return fmt.Errorf("%s: %s: must be of %s", f.flag, v, strings.Join(f.allowed, ", "))
			}
			if slices.Contains(f.chosen[:i], v) {
				return fmt.Errorf("%s: %s: must be named once", f.flag, v)
			}
		}
	}
	if c.Machines != nil && len(c.Segmentations) > 1 {
		return errors.New("--segmentation: needs a lab: with --hosts, devices are used as they are set up")
	}
	return nil
}
