package lab

import (
	"strings"

	"kernel.org/pub/linux/libs/security/libcap/cap"
)

// A lab needs CAP_SYS_ADMIN to make and enter namespaces, CAP_NET_ADMIN to configure them, CAP_BPF and CAP_PERFMON to
// load programs.
var capabilities = []cap.Value{cap.NET_ADMIN, cap.SYS_ADMIN, cap.PERFMON, cap.BPF}

// Permitted returns a *MissingError that names the capabilities which this process lacks to build a lab, or nil.
func Permitted() error {
	has, err := cap.GetPID(0)
	if err != nil {
		return &MissingError{What: "the capabilities of this process", Err: err}
	}
	var missing []string
	for _, c := range capabilities {
		if effective, err := has.GetFlag(cap.Effective, c); err != nil || !effective {
			missing = append(missing, strings.ToUpper(c.String()))
		}
	}
	if missing == nil {
		return nil
	}
	return &MissingError{What: strings.Join(missing, ", ") + " (run as root)"}
}
