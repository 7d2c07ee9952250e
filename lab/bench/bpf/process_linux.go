package bpf

import (
	"errors"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
)

// SetNamespace gives programs the ids that processes have in this process's PID namespace.
func SetNamespace(spec *ebpf.CollectionSpec) error {
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return err
	}
	namespace, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("/proc/self/ns/pid has no inode")
	}
	return errors.Join(
		spec.Variables[SyscallsVarDevice].Set(namespace.Dev),
		spec.Variables[SyscallsVarInode].Set(namespace.Ino))
}
