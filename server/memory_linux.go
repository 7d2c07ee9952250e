package server

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// dropProgram takes the pages of the program's file out of the process's memory. Most of them are code, tables and
// constants that are needed when the program starts, or when a connection is made. Those that are needed again come
// back from the page cache.
func dropProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		start, end, mode := parseMapping(lines.Text(), program)
		if strings.HasPrefix(mode, "r-") { // what was written to would be lost
			_, _, _ = unix.RawSyscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED)
		}
	}
}

// parseMapping parses a line of /proc/PID/maps. The mode is empty if the line is not about the file.
func parseMapping(line, file string) (start, end uintptr, mode string) {
	if !strings.HasSuffix(line, " "+file) {
		return 0, 0, ""
	}
	if _, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode); err != nil {
		return 0, 0, ""
	}
	return start, end, mode
}
