package lab

import (
	"strings"

	"golang.org/x/sys/unix"
)

// A lab needs CAP_SYS_ADMIN to make and enter namespaces, CAP_NET_ADMIN to configure them, CAP_BPF and CAP_PERFMON to
// load programs.
var capabilities = []struct {
	name string
	bit  uint
}{
	{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN},
	{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN},
	{"CAP_PERFMON", unix.CAP_PERFMON},
	{"CAP_BPF", unix.CAP_BPF},
}

// Permitted returns a *MissingError that names the capabilities which this process lacks to build a lab, or nil.
func Permitted() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return &MissingError{What: "the capabilities of this process", Err: err}
	}
	effective := uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
	var missing []string
	for _, c := range capabilities {
		if effective>>c.bit&1 == 0 {
			missing = append(missing, c.name)
		}
	}
	if missing == nil {
		return nil
	}
	return &MissingError{What: strings.Join(missing, ", ") + " (run as root)"}
}
