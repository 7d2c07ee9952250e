package bpf

import (
	"errors"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// SetNamespace gives programs the ids that processes have in this process's PID namespace.
func SetNamespace(spec *ebpf.CollectionSpec) error {
	var namespace unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &namespace); err != nil {
		return err
	}
	return errors.Join(
		spec.Variables[SyscallsVarDevice].Set(namespace.Dev),
		spec.Variables[SyscallsVarInode].Set(namespace.Ino))
}
