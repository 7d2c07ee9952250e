package memory

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// When a page of a file is missing, the kernel also maps those around it, 16 in all, if the page cache has them. Of a
// program's pages, three in four are then in memory for nothing. There is no switch for a single process or mapping,
// but the kernel maps only the page that is missing where userfaultfd(2) watches for writes (uffd_disable_fault_around
// in linux/userfaultfd_k.h). Nobody has to look: the kernel itself answers a watch that is asynchronous (since Linux
// 6.7), and nobody writes to a program. A missing page takes as long as before, so DropProgram costs some hundred page
// faults instead of a third of them that map 16 pages each.
//
// The constants are of linux/userfaultfd.h.
const (
	userModeOnly   = 1          // UFFD_USER_MODE_ONLY, for which a process needs no rights
	requestAPI     = 0xc018aa3f // UFFDIO_API
	requestWatch   = 0xc020aa00 // UFFDIO_REGISTER
	versionOfAPI   = 0xaa       // UFFD_API
	asynchronous   = 1 << 15    // UFFD_FEATURE_WP_ASYNC
	watchForWrites = 1 << 1     // UFFDIO_REGISTER_MODE_WP
)

// watcher returns the descriptor by which mappings are watched, until the process ends. It is negative if the kernel or
// a filter of system calls does not allow it: then more pages than are needed come back.
var watcher = sync.OnceValue(func() int {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
	if errno != 0 {
		return -1
	}
	api := struct{ version, features, ioctls uint64 }{versionOfAPI, asynchronous, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, requestAPI, uintptr(unsafe.Pointer(&api))); errno != 0 {
		unix.Close(int(fd))
		return -1
	}
	return int(fd)
})

// mapSinglePages lets only those pages of a file come back that are needed. It may be called again.
//
// If the page cache has 2 MiB of the file in one piece, because that was written at once, the kernel would map all of
// it.
func mapSinglePages(m mapping) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_NOHUGEPAGE)
	if fd := watcher(); fd >= 0 {
		length := uint64(m.end - m.start)
		watch := struct{ start, length, mode, ioctls uint64 }{uint64(m.start), length, watchForWrites, 0}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), requestWatch, uintptr(unsafe.Pointer(&watch)))
	}
}
