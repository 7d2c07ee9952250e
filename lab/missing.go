package lab

import "sluice/lab/netns"

// MissingError names a permission or a part of the kernel that a lab needs and does not find.
type MissingError = netns.MissingError
