package fastpath

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/claim"
	"sluice/lab"
)

// Copies have the ECN mark that user space has set for the connection, and their records say so.
func TestMarkedCopies(t *testing.T) {
	for name, v6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, lab.Topology{Subscribers: 1}, v6)
			r.subscribeAll()
			s := r.subscribers[0]
			raw, err := s.conn.SyscallConn()
			require.NoError(t, err)
			require.NoError(t, raw.Control(func(fd uintptr) {
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
			}))
			for i, mark := range []uint32{0, 2, 0, 1} {
				r.kernel.conns[s.index].Ecn = mark
				pn := r.kernel.conns[s.index].NextPn
				r.publish(stream(3+4*uint64(i), 0, 1, append(subgroupHeader(77, uint64(i), 5, 1), "object"...)))
				require.EqualValues(t, mark, receiveMark(r, s))
				info := claim.Info(r.record(s, pn).Info.Load())
				require.Equal(t, mark != 0, info.Has(claim.FlagMarked))
				require.True(t, info.Live() && info.Has(claim.FlagFIN))
			}
			require.Equal(t, uint64(4), r.counts()["copy_sent"])
		})
	}
}

// receiveMark returns the ECN bits of a packet's IP header.
func receiveMark(r *rig, s *subscriber) byte {
	r.t.Helper()
	oob := make([]byte, 200)
	require.NoError(r.t, s.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	_, n, _, _, err := s.conn.ReadMsgUDP(make([]byte, 2000), oob)
	require.NoError(r.t, err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	require.NoError(r.t, err)
	for _, m := range messages {
		if typ := m.Header.Type; typ == unix.IP_TOS || typ == unix.IPV6_TCLASS {
			return m.Data[0] & 3
		}
	}
	return 0
}
