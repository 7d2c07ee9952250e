package main

import (
	"kernel.org/pub/linux/libs/security/libcap/cap"

	"sluice/internal/service"
)

// dropPrivileges gives up capabilities that a relay needs only to start, for good and in all threads: capabilities(7)
// to bind a low port, to load programs and to attach them to devices. It keeps, if the process has them:
//
//   - CAP_BPF with the fast path, which makes maps for connections as they come. All else that it does to maps and
//     links needs only their descriptors.
//   - CAP_DAC_READ_SEARCH, which the relay has if root started it: it reads renewed certificates and tokens, which may
//     belong to other users.
func dropPrivileges(fastPath bool) error {
	if fastPath {
		return service.KeepPrivileges(cap.DAC_READ_SEARCH, cap.BPF)
	}
	return service.KeepPrivileges(cap.DAC_READ_SEARCH)
}
