package fastpath

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/claim"
	"sluice/fastpath/bpf"
	"sluice/fastpath/bpf/bpftest"
	"sluice/lab"
	"sluice/lab/labtest"
)

// childDevice names the device that a child process attaches the programs to.
const childDevice = "SLUICE_TEST_DEVICE"

// child attaches the programs as a relay does, and stays until it is killed.
func child(device string) {
	d, err := net.InterfaceByName(device)
	if err == nil {
		var f *FastPath
		if f, err = New(Settings{Port: relayPort}, slog.New(slog.DiscardHandler)); err == nil {
			err = f.Attach(d.Index)
		}
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("attached")
	select {}
}

// startChild starts a child process in a host's namespace that can have only those capabilities, and returns its
// output.
func startChild(t *testing.T, h *lab.Host, capabilities []uint) (cmd *exec.Cmd, says string) {
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDevice+"="+h.Devices[0].Name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		for c := range uint(unix.CAP_LAST_CAP + 1) {
			keep := capabilities == nil
			for _, k := range capabilities {
				keep = keep || k == c
			}
			if !keep {
				if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
					failed <- err
					return
				}
			}
		}
		failed <- h.Start(cmd)
	}()
	require.NoError(t, <-failed)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return cmd, strings.TrimSpace(line)
}

// TestCapabilities needs three capabilities and no others; if one is missing the error says which.
func TestCapabilities(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	var all []uint
	for _, c := range capabilities {
		all = append(all, c.bit)
	}
	_, says := startChild(t, l.Relay, all)
	require.Equal(t, "attached", says)
	for i, c := range capabilities {
		var rest []uint
		rest = append(append(rest, all[:i]...), all[i+1:]...)
		_, says := startChild(t, l.Relay, rest)
		require.Equal(t, "missing "+c.name, says)
	}
}

func TestOldKernels(t *testing.T) {
	for release, older := range map[string]bool{"6.5.13-generic": true, "5.15.0": true, "6.6": false, "6.6.1+": false,
		"6.18.0-rc1": false, "7.0": false, "strange": false} {
		require.Equal(t, older, isOlder(release, minMajor, minMinor), release)
	}
}

// TestCrash kills a process that has the programs attached while another one starts: the second one logs that, and
// nothing of the first one is left.
func TestCrash(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	first, says := startChild(t, l.Relay, nil)
	require.Equal(t, "attached", says)
	attached := func() (n int) {
		require.NoError(t, l.Relay.Do(func() error {
			d, err := net.InterfaceByName(l.Relay.Devices[0].Name)
			for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				if err == nil {
					var q *link.QueryResult
					if q, err = link.QueryPrograms(link.QueryOptions{Target: d.Index, Attach: at}); err == nil {
						n += len(q.Programs)
					}
				}
			}
			return err
		}))
		return n
	}
	require.Equal(t, 2, attached())

	said := new(bytes.Buffer)
	f, err := New(Settings{Port: relayPort}, slog.New(slog.NewTextHandler(said, nil)))
	require.NoError(t, err)
	require.NoError(t, l.Relay.Do(func() error {
		d, err := net.InterfaceByName(l.Relay.Devices[0].Name)
		return errors.Join(err, f.Attach(d.Index))
	}))
	require.Contains(t, said.String(), "another relay")
	require.Equal(t, 4, attached())
	require.NoError(t, first.Process.Kill())
	require.Eventually(t, func() bool { return attached() == 2 }, time.Minute, 50*time.Millisecond)
	require.NoError(t, f.Close())
	require.Zero(t, attached())
}

// TestKeysAreErased ends a connection: nothing of it remains.
func TestKeysAreErased(t *testing.T) {
	r, _ := objectRig(t, 1)
	const index = 40
	c := r.connection(index)
	secret := claim.PacketKeys(*randomPacketKeys())
	for i := range 100 { // the client retires them as fast
		c.ConnectionID(fmt.Appendf(nil, "retire%02d", i), true)
	}
	c.ConnectionID([]byte("retire00"), false)
	c.ConnectionID([]byte("retire99"), true) // there is room again
	require.Len(t, c.ids, int(bpf.IngressCapacityIDS_PER_CONNECTION))
	c.ReadKeys(0, &secret)
	c.ReadKeys(1, &secret)
	c.WriteKeys(0, &secret)
	c.WriteKeys(1, &secret)
	require.NotZero(t, r.keyBytes(index))
	c.Close()
	c.ReadKeys(2, &secret) // too late
	c.WriteKeys(2, &secret)
	c.ConnectionID([]byte("too late"), true)
	require.Eventually(t, func() bool { return r.keyBytes(index) == 0 }, time.Minute, time.Millisecond)
	require.Empty(t, keysOf(r.ingress.ConnectionIds, func(_ *bpf.ConnectionID, i *uint32) bool { return *i == index }))
}

// keyBytes is the number of bytes of a connection's keys that are not zero.
func (r *rig) keyBytes(index uint32) (n int) {
	for _, b := range append(bpftest.Bytes(&r.kernel.keys[index]), bpftest.Bytes(&r.publishers[index].Keys)...) {
		if b != 0 {
			n++
		}
	}
	return n
}

// TestStreamClosedTwice frees a stream's memory once: a second time would give it to two streams.
func TestStreamClosedTwice(t *testing.T) {
	r, _ := objectRig(t, 1)
	c, reclaimer := r.connection(0), r.fast.reclaimer
	stopReclaimer(t, r.fast) // this test does its work
	state, adopted := c.OpenStream(&claim.PublisherStream{Conn: c, StreamID: 7})
	require.False(t, adopted)
	c.CloseStream(state)
	c.CloseStream(state)
	reclaimer.reclaim()
	require.Len(t, reclaimer.later, 1)
	c.CloseStream(state)
	require.Len(t, reclaimer.later, 1)
}

// TestSlotsAreFreedOnce opens streams of connections that end, while the reclaimer sweeps up after them.
func TestSlotsAreFreedOnce(t *testing.T) {
	f, err := New(Settings{Port: relayPort, MaxConnections: 8}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	bpftest.RequireKernel(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	stopReclaimer(t, f) // this test does its work
	for range 5 {
		one, _ := f.Connect(func(*claim.StreamState) {})
		c := one.(*conn)
		c.SetSession(claim.Session{Layout: knownLayout})
		swept := make(chan struct{})
		var open sync.WaitGroup
		for i := range 2 {
			open.Go(func() {
				for id := int64(i); ; id = (id + 2) % 32 {
					select {
					case <-swept:
						return
					default:
						c.OpenStream(&claim.PublisherStream{Conn: c, StreamID: id})
					}
				}
			})
		}
		c.Close()
		for range 100 {
			f.reclaimer.sweep([]*conn{c})
		}
		close(swept)
		open.Wait()
		f.reclaimer.reclaim()
	}
	free := make(map[uint32]bool)
	for slot := uint32(0); f.kernel.ingress.FreeStreams.LookupAndDelete(nil, &slot) == nil; {
		require.False(t, free[slot], "slot %d is free twice", slot)
		free[slot] = true
	}
	require.Len(t, free, len(f.streams))
}

func stopReclaimer(t testing.TB, f *FastPath) {
	f.reclaimer.close()
	t.Cleanup(func() { f.reclaimer.done = make(chan struct{}) }) // Close closes it again
}
