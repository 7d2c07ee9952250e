package command

import (
	"kernel.org/pub/linux/libs/security/libcap/cap"

	"sluice/internal/service"
)

// dropPrivileges gives up capabilities that sluice-rtt needs only to start: to load programs, and to attach them to
// devices. It keeps, if the process has them:
//
//   - CAP_BPF, to run programs that clean up, and to read maps where sysctl kernel.unprivileged_bpf_disabled asks for
//     it.
//   - CAP_NET_ADMIN with filters of a qdisc, which are removed at the end. Links go with their descriptors.
//   - CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, which the process has if root started it: its output, its history and
//     the file with its groups may belong to other users.
func dropPrivileges(filters bool) error {
	keep := []cap.Value{cap.DAC_READ_SEARCH, cap.DAC_OVERRIDE, cap.BPF}
	if filters {
		keep = append(keep, cap.NET_ADMIN)
	}
	return service.KeepPrivileges(keep...)
}
