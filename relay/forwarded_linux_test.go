package relay

import (
	"crypto/tls"
	"encoding/binary"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/fastpath"
	"sluice/fastpath/bpf/bpftest"
	"sluice/internal/packet"
	"sluice/lab/sim/programs"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// forwarded is a kernel that forwards from a publisher to a subscriber. The test gives it the publisher's packets, so
// that they may be lost behind it.
type forwarded struct {
	fast                  *fastpath.FastPath
	publisher, subscriber claim.ForwarderConn
	kernel                *programs.Kernel
	sealer                packet.Sealer
	packets               uint64
}

// The addresses of the relay, the publisher and the subscriber, and the publisher's connection ID.
var (
	forwardedRelay      = netip.MustParseAddrPort("10.0.0.1:4443")
	forwardedPublisher  = netip.MustParseAddrPort("10.0.0.2:5000")
	forwardedSubscriber = netip.MustParseAddrPort("10.0.0.3:6000")
	forwardedID         = slices.Repeat([]byte{7}, transport.ConnectionIDLength)
)

// forward gives a relay that has no track yet such a kernel.
func (b *bench) forward() *forwarded {
	f := &forwarded{kernel: programs.New(1, programs.Habits{Budget: 8, Slots: 480}, func(netip.AddrPort, []byte) {})}
	f.kernel.Sent(forwardedSubscriber)
	var err error
	f.fast, err = f.kernel.Open(nil, slog.New(slog.DiscardHandler))
	require.NoError(b.t, err)
	b.relay.directory.FastPath = f.fast
	connect := func(at netip.AddrPort) (claim.ForwarderConn, *claim.ConnState) {
		c, s := f.fast.Connect(func(*claim.StreamState) {})
		c.SetSession(claim.Session{Layout: moqt.DataLayout1})
		c.SetPath(claim.Path{Local: forwardedRelay, Remote: at, DestConnID: []byte("peer"), MaxStreamData: 1 << 40})
		return c, s
	}
	const suite, version = tls.TLS_CHACHA20_POLY1305_SHA256, 1
	secret := make([]byte, 32)
	key, err := packet.NewKey(0, suite, version, secret)
	require.NoError(b.t, err)
	f.sealer.Install(0, key)
	m, err := packet.Derive(suite, version, secret)
	require.NoError(b.t, err)
	keys := &claim.PacketKeys{
		Key: [32]byte(m.Key), HeaderProtection: [32]byte(m.HeaderProtection), IV: [12]byte(m.IV),
	}
	f.publisher, _ = connect(forwardedPublisher)
	f.publisher.ReadKeys(0, keys)
	f.publisher.ConnectionID(forwardedID, true)
	var s *claim.ConnState
	f.subscriber, s = connect(forwardedSubscriber)
	f.subscriber.WriteKeys(0, keys)
	claim.Ledger(f.subscriber.Ledger()).Clear()
	s.NextUni.Store(3)
	s.Window.Store(1 << 20)
	s.DataLimit.Store(1 << 20)
	s.MaxUni.Store(100)
	s.MTU.Store(1400)
	s.Threshold.Store(1 << 16)
	return f
}

// begins has the kernel take a packet with the beginning of a subgroup. The packet does not come to the relay.
// It returns what became of the copy.
func (f *forwarded) begins(t *testing.T, stream, alias, group uint64) (reasons []string) {
	t.Helper()
	header := bpftest.Concat(0x10, bpftest.VI64(alias), bpftest.VI64(group), 128)
	frame := bpftest.Stream(stream, 0, 0, append(header, "object"...))
	b := append([]byte{0x40 | packet.NumberLength - 1}, forwardedID...)
	b = binary.BigEndian.AppendUint32(b, uint32(f.packets))
	end := len(b) // of the header
	b = slices.Grow(append(b, frame...), packet.TagLength)
	b = f.sealer.Seal(b, end, f.packets, 0)
	f.sealer.Protect()
	f.packets++
	before, err := f.fast.Counts()
	require.NoError(t, err)
	f.kernel.Receive(forwardedPublisher, b, func() {})
	synctest.Wait()
	after, err := f.fast.Counts()
	require.NoError(t, err)
	for reason, n := range after {
		if n > before[reason] && len(reason) > 5 && reason[:5] == "copy_" {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// The kernel forwards a publisher that does not say how far the track is. The first object that user space gets tells
// what was missed. From then on the kernel opens no streams for that, and the relay asks for it when it has had time to
// read the streams that the kernel has opened: subscribers would get their objects twice.
func TestRefillBesideTheKernel(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		f := b.forward()
		defer f.fast.Close()
		u, first, src, _ := b.watchForeign()
		src.group(1, 1)
		peers, _ := b.relay.sessions.list()
		peers[0].Forwarder = f.subscriber
		first.cut()
		time.Sleep(time.Second)
		a := &archive{size: 1, largest: at(4, 0), flat: true}
		asked := func() int {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.requests)
		}
		_, next := b.dialForwarded(u, f.publisher, as("sluice"), func(cfg *session.Config) {
			cfg.Handler.(*clientHandler).fetch = a.serve
		})
		src = next.serve(&source{})
		time.Sleep(time.Second)
		alias := src.publication().Alias()
		require.Equal(t, []string{"copy_sent"}, f.begins(t, 1003, alias, 2), "nobody knows what was missed")
		src.group(4, 1)
		require.Equal(t, []string{"copy_filtered"}, f.begins(t, 1007, alias, 3))
		require.Zero(t, asked(), "the stream that the kernel has opened may be on its way")
		time.Sleep(5 * time.Second)
		require.NotZero(t, asked())
		require.Equal(t, []string{"copy_sent"}, f.begins(t, 1011, alias, 5))
	})
}
