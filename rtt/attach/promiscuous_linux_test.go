package attach

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSocketErrorsSayWhatToDo has what a process without the capability gets, and one whose unit of systemd restricts
// the families of sockets.
func TestSocketErrorsSayWhatToDo(t *testing.T) {
	for err, want := range map[syscall.Errno]string{
		unix.EPERM: "CAP_NET_RAW", unix.EAFNOSUPPORT: "RestrictAddressFamilies",
	} {
		got := socketError(err)
		require.ErrorIs(t, got, err)
		require.ErrorContains(t, got, want)
	}
	require.Equal(t, unix.ENOMEM, socketError(unix.ENOMEM))
}
