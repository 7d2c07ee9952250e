package lab

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"sluice/lab/netns"
)

// watcher is a namespace that gives other namespaces numbers. The kernel forgets a number when it destroys the
// namespace, and thereby tells that it has.
type watcher struct{ *netns.Namespace }

func newWatcher(t *testing.T) watcher {
	ns, err := netns.New()
	require.NoError(t, err)
	t.Cleanup(ns.Close)
	return watcher{ns}
}

// watch gives the namespaces numbers, without holding them.
func (w watcher) watch(t *testing.T, files ...*os.File) {
	t.Helper()
	require.NoError(t, w.Do(func() error {
		for i, f := range files {
			if err := netlink.SetNetNsIdByFd(int(f.Fd()), i); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(t, len(files), w.alive(t))
}

// alive returns how many of the namespaces still exist.
func (w watcher) alive(t *testing.T) (count int) {
	t.Helper()
	require.NoError(t, w.Do(func() error {
		req := nl.NewNetlinkRequest(unix.RTM_GETNSID, unix.NLM_F_DUMP)
		req.AddData(&nl.RtGenMsg{})
		messages, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNSID)
		count = len(messages)
		return err
	}))
	return count
}

func (w watcher) requireGone(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return w.alive(t) == 0 }, time.Minute, 20*time.Millisecond,
		"namespaces remain")
}

// everything is a topology that uses all parts of a lab.
var everything = Topology{
	Subscribers: 3,
	Uplink:      Conditions{Rate: 10e6, Loss: 0.1},
	Downlink:    Conditions{Delay: time.Millisecond, Reorder: 0.1},
}

func namespaceFiles(l *Lab) (files []*os.File) {
	for _, h := range l.Hosts() {
		files = append(files, h.ns.File)
	}
	return files
}

func TestCloseLeavesNothing(t *testing.T) {
	requirePermission(t)
	w := newWatcher(t)
	before := goleak.IgnoreCurrent()
	l, err := New(t.Context(), everything)
	require.NoError(t, err)
	capture, err := l.StartCapture(Point{l.Relay.Device("up"), ToHost})
	require.NoError(t, err)
	_, err = capture.Stop()
	require.NoError(t, err)
	w.watch(t, namespaceFiles(l)...)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close(), "closing twice is harmless")
	w.requireGone(t)
	goleak.VerifyNone(t, before)
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	requirePermission(t)
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := New(ctx, everything)
	require.ErrorIs(t, err, context.Canceled)
	goleak.VerifyNone(t, before)
}

// A process that is killed cannot clean up; its lab goes all the same.
func TestCrashLeavesNothing(t *testing.T) {
	requirePermission(t)
	w := newWatcher(t)
	victim := exec.Command(os.Args[0], "-test.run=^TestCrashVictim$")
	victim.Env = append(os.Environ(), "SLUICE_LAB_VICTIM=1")
	out, err := victim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, victim.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	var files []*os.File
	for _, fd := range strings.Fields(line) {
		f, err := os.Open(filepath.Join("/proc", fmt.Sprint(victim.Process.Pid), "fd", fd))
		require.NoError(t, err)
		files = append(files, f)
	}
	require.Len(t, files, everything.Subscribers+3)
	w.watch(t, files...)
	for _, f := range files {
		require.NoError(t, f.Close())
	}
	require.NoError(t, victim.Process.Kill())
	require.Error(t, victim.Wait())
	w.requireGone(t)
}

// TestCrashVictim is the process that TestCrashLeavesNothing kills; by itself it does nothing.
func TestCrashVictim(t *testing.T) {
	if os.Getenv("SLUICE_LAB_VICTIM") == "" {
		return
	}
	l, err := New(t.Context(), everything)
	require.NoError(t, err)
	for _, f := range namespaceFiles(l) {
		fmt.Print(f.Fd(), " ")
	}
	fmt.Println()
	select {}
}

func TestMissingCapabilitiesAreNamed(t *testing.T) {
	requirePermission(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &data[0]))
	without := data
	without[0].Effective &^= 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN
	without[1].Effective &^= 1 << (unix.CAP_BPF - 32)
	require.NoError(t, unix.Capset(&header, &without[0]))
	_, err := New(t.Context(), Topology{})
	require.NoError(t, unix.Capset(&header, &data[0]))

	require.EqualError(t, err, "lab: missing CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF (run as root)")
	var missing *MissingError
	require.ErrorAs(t, err, &missing)
}
