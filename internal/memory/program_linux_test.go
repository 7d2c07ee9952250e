package memory

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestDropFile maps a file twice. Pages of one mapping were written to before it became read-only, as a dynamic linker
// does, and a debugger: they must keep the written bytes.
func TestDropFile(t *testing.T) {
	page := os.Getpagesize()
	content := bytes.Repeat([]byte("sluice"), 8*page/6+1)[:8*page]
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, content, 0o600))
	clean, changed := mapTwice(t, name, len(content))
	require.NoError(t, unix.Mprotect(changed, unix.PROT_READ|unix.PROT_WRITE))
	changed[3*page] = 'X'
	want := slices.Clone(changed)
	require.NoError(t, unix.Mprotect(changed, unix.PROT_READ))
	require.Equal(t, content, clean)
	require.Equal(t, len(content), resident(t, clean))

	dropFile(name)
	require.Zero(t, resident(t, clean))
	require.Equal(t, len(content), resident(t, changed))
	require.Equal(t, content, clean)
	require.Equal(t, want, changed)
}

// TestSinglePages reads a page of a file that the page cache has. Others around it stay where they are.
func TestSinglePages(t *testing.T) {
	if watcher() < 0 {
		require.Empty(t, os.Getenv("SLUICE_REQUIRE_KERNEL"))
		t.Skip("needs userfaultfd(2) of Linux 6.7, and a filter of system calls that allows it")
	}
	page := os.Getpagesize()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, make([]byte, 2*64*page), 0o600))
	mapped, _ := mapTwice(t, name, 64*page)
	dropFile(name)
	require.Zero(t, resident(t, mapped))
	require.Zero(t, mapped[20*page])
	require.Equal(t, page, resident(t, mapped))
}

// TestDropProgram goes on to run, whatever linker and tracer have done to this program.
func TestDropProgram(t *testing.T) {
	for range 3 {
		DropProgram()
		require.Equal(t, "sluice", strings.ToLower("SLUICE"))
	}
}

// mapTwice maps a file to addresses that follow one another, as a program's do.
func mapTwice(t *testing.T, name string, length int) (first, second []byte) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	all, err := unix.Mmap(-1, 0, 2*length, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(all)) })
	for at := 0; at < len(all); at += length {
		_, err := unix.MmapPtr(int(f.Fd()), 0, unsafe.Pointer(&all[at]), uintptr(length), unix.PROT_READ,
			unix.MAP_PRIVATE|unix.MAP_FIXED)
		require.NoError(t, err)
	}
	return all[:length:length], all[length:]
}

// resident returns how many bytes of a mapping are in this process's memory.
func resident(t *testing.T, mapped []byte) (n int) {
	pages, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer pages.Close()
	page := os.Getpagesize()
	entry := make([]byte, 8)
	for at := 0; at < len(mapped); at += page {
		_, err := pages.ReadAt(entry, int64(uintptr(unsafe.Pointer(&mapped[at])))/int64(page)*8)
		require.NoError(t, err)
		if entry[7]>>7 != 0 { // the page is present
			n += page
		}
	}
	return n
}

func TestMappings(t *testing.T) {
	const text = `00400000-00dc8000 r-xp 00000000 fe:00 1234                       /usr/bin/sluice (deleted)
Size:              10016 kB
Rss:                 256 kB
Anonymous:             0 kB
THPeligible:           0
VmFlags: rd ex mr mw me
018ec000-01a0d000 rw-p 014ec000 fe:00 1234                       /usr/bin/sluice (deleted)
Anonymous:           128 kB
c000000000-c000400000 rw-p 00000000 00:00 0 
7fff0000-7fff1000 r--p 00000000 00:00 0                          [vvar]
Anonymous:             0 kB
Anonymous:  nonsense
7fff1000-7fff1000 r--p 00000000 00:00 0                          /empty
`
	const program = "/usr/bin/sluice (deleted)"
	require.Equal(t, []mapping{
		{0x400000, 0xdc8000, "r-xp", program, false},
		{0x18ec000, 0x1a0d000, "rw-p", program, true},
		{0xc000000000, 0xc000400000, "rw-p", "", true},
		{0x7fff0000, 0x7fff1000, "r--p", "[vvar]", true},
	}, slices.Collect(mappings(strings.NewReader(text))))
	require.Empty(t, slices.Collect(mappings(strings.NewReader("Anonymous: 0 kB\n"))))
}
