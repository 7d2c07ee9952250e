package memory

import (
	"bufio"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DropProgram takes the program's code and constants out of the process's memory. Most of them are needed when the
// program starts, or when a connection is made. What is needed again comes back from the page cache, page by page.
func DropProgram() {
	if program, err := os.Readlink("/proc/self/exe"); err == nil {
		dropFile(program)
	}
}

// dropFile does so for a file that this process has mapped.
//
// MADV_DONTNEED also forgets what was written to the pages of a private mapping, even if it is read-only by now: by a
// dynamic linker, or for a breakpoint of a debugger or a uprobe. Such pages are not the file's any more, so the kernel
// counts them as anonymous. A mapping that has any stays as it is.
func dropFile(name string) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	found := false
	for m := range mappings(f) {
		if m.file != name {
			if found {
				return // they are all together; thousands of mappings of BPF maps may follow
			}
			continue
		}
		found = true
		if m.mode[1] == '-' && m.mode[3] == 'p' && !m.changed {
			mapSinglePages(m)
			// It fails if the pages are locked in memory. Then they stay.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
		}
	}
}

// mapping is an entry of /proc/PID/smaps (proc_pid_smaps(5)).
type mapping struct {
	start, end uintptr
	mode       string // such as "r-xp"
	file       string // empty: none
	changed    bool   // it has pages that are not the file's
}

// mappings parses /proc/PID/smaps.
func mappings(smaps io.Reader) iter.Seq[mapping] {
	return func(yield func(mapping) bool) {
		var last mapping
		for lines := bufio.NewScanner(smaps); lines.Scan(); {
			if size, ok := strings.CutPrefix(lines.Text(), "Anonymous:"); ok {
				last.changed = strings.TrimSpace(size) != "0 kB"
			} else if m, ok := parseMapping(lines.Text()); ok {
				if last.end != 0 && !yield(last) {
					return
				}
				last = m
			}
		}
		if last.end != 0 {
			yield(last)
		}
	}
}

// parseMapping parses the first line of an entry. The mapping counts as changed until another line says that it is not.
func parseMapping(line string) (m mapping, ok bool) {
	fields := strings.SplitN(line, " ", 6) // range, mode, offset, device, inode, file
	if len(fields) < 6 || len(fields[1]) != 4 {
		return m, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	start, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	file := strings.TrimLeft(fields[5], " ")
	return mapping{uintptr(start), uintptr(end), fields[1], file, true}, err1 == nil && err2 == nil && start < end
}
