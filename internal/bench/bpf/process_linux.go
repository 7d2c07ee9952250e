package bpf

import (
	"errors"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
)

// SetProcess has a program measure a process, whose id is that in this process's PID namespace.
func SetProcess(spec *ebpf.CollectionSpec, pid int) error {
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
		spec.Variables[SyscallsVarInode].Set(namespace.Ino),
		spec.Variables[SyscallsVarProcess].Set(uint32(pid)))
}
