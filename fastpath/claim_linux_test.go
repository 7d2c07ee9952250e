package fastpath_test

import (
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/claim/claimtest"
	"sluice/fastpath"
	"sluice/fastpath/bpf"
	"sluice/internal/packet"
	"sluice/lab"
	"sluice/lab/labtest"
	"sluice/moqt"
)

const (
	kernelPort       = 4443
	publishersStream = 3 // the publisher's stream
	claimEnd         = 40
)

// kernelRig is a subscriber's connection and a stream that this process and the kernel's program race on.
type kernelRig struct {
	*testing.T
	lab       *lab.Lab
	fast      *fastpath.FastPath
	track     *fastpath.ForwardedTrack
	program   *ebpf.Program // server_ingress
	packets   *peerPackets
	publisher claim.ForwarderConn
	down      claim.ForwarderConn
	sub       *claim.ConnState
	records   []claim.Record
	claims    *claimtest.Claims
}

var (
	kernelCID     = []byte("publish!")
	relayAddr     = netip.MustParseAddrPort("192.0.2.2:4443")
	publisherAddr = netip.MustParseAddrPort("192.0.2.1:9")
)

func newKernelRig(t *testing.T) *kernelRig {
	r := &kernelRig{T: t, lab: labtest.New(t, lab.Topology{Subscribers: 1}), packets: newPeerPackets(t)}
	var err error
	r.fast, err = fastpath.New(fastpath.Settings{Port: kernelPort, ConnectionIDLen: len(kernelCID)},
		slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.fast.Close()) })
	require.NoError(t, r.lab.Relay.Do(r.attach))

	r.publisher, _ = r.fast.Connect(func(*claim.StreamState) {})
	r.publisher.SetSession(claim.Session{Layout: moqt.DataLayout1})
	r.publisher.ReadKeys(0, &r.packets.keys)
	r.publisher.SetPath(claim.Path{Local: relayAddr, Remote: publisherAddr})
	r.publisher.ConnectionID(kernelCID, true)
	r.down, r.sub = r.fast.Connect(func(*claim.StreamState) {})
	r.records = r.down.Ledger()
	r.down.WriteKeys(0, &r.packets.keys)
	r.down.SetSession(claim.Session{Layout: moqt.DataLayout1})
	r.meet()
	r.track = r.fast.NewTrack()
	r.track.Forward(r.publisher, 7, 128, []fastpath.Subscriber{{
		Conn: r.down, Alias: 7, Range: moqt.Range{End: moqt.Location{Group: 1<<64 - 1}}, Forward: true, Priority: 128,
	}})
	return r
}

func (r *kernelRig) attach() error {
	for _, d := range r.lab.Relay.Devices {
		i, err := net.InterfaceByName(d.Name)
		if err != nil {
			return err
		}
		if err := r.fast.Attach(i.Index); err != nil {
			return err
		}
		q, err := link.QueryPrograms(link.QueryOptions{Target: i.Index, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return err
		}
		if r.program, err = ebpf.NewProgramFromID(q.Programs[len(q.Programs)-1].ID); err != nil {
			return err
		}
		r.Cleanup(func() { r.program.Close() })
	}
	return nil
}

// meet sends something to the subscriber through the stack, so that the kernel learns where the subscriber is.
func (r *kernelRig) meet() {
	host := r.lab.Subscribers[0]
	near, far := netip.AddrPortFrom(r.lab.Relay.Facing(host).IPv4.Addr(),
		kernelPort), netip.AddrPortFrom(host.Devices[0].IPv4.Addr(), 9000)
	relay, err := r.lab.Relay.ListenUDP(near)
	require.NoError(r, err)
	defer relay.Close()
	viewer, err := host.ListenUDP(far)
	require.NoError(r, err)
	r.Cleanup(func() { viewer.Close() })
	_, err = relay.WriteToUDPAddrPort([]byte("handshake"), far)
	require.NoError(r, err)
	require.NoError(r, viewer.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = viewer.Read(make([]byte, 100))
	require.NoError(r, err)
	r.down.SetPath(claim.Path{Local: near, Remote: far, MaxStreamData: 1 << 20})
}

// open opens, in this process, a stream for one of the publisher's, for the races to begin on.
func (r *kernelRig) open(id int64) *claim.StreamState {
	h := moqt.SubgroupHeader{GroupID: uint64(id), SubgroupIDMode: moqt.SubgroupIDZero}
	r.track.Receive(r.publisher, id, h, 128, 0)
	state, adopted := r.down.OpenStream(&claim.PublisherStream{Conn: r.publisher, StreamID: id})
	require.NotNil(r, state)
	require.False(r, adopted)
	return state
}

// seeAgain runs the kernel's program on a packet as if it had not come before.
func (r *kernelRig) seeAgain(packet []byte) {
	r.fast.ForgetNumbers()
	r.see(packet)
}

// see runs the kernel's program on a packet.
func (r *kernelRig) see(packet []byte) {
	require.NoError(r, r.lab.Relay.Do(func() error {
		_, err := r.program.Run(&ebpf.RunOptions{Data: frame(packet)})
		return err
	}))
}

// piece is a packet with the bytes [from, to) of the publisher's stream.
func (r *kernelRig) piece(from, to int64) []byte {
	return r.packets.stream(kernelCID, publishersStream, from, make([]byte, to-from), to == claimEnd)
}

// frame is an Ethernet frame with a packet of the publisher's.
func frame(payload []byte) []byte {
	return append(make([]byte, 12), fastpath.UDPFrame(publisherAddr, relayAddr, payload)...)
}

// TestKernelBetweenAccesses runs the kernel's program between any two accesses of this process to the memory that both
// share: one packet there, and the next there or later, for every place, cut and credit.
func TestKernelBetweenAccesses(t *testing.T) {
	r := newKernelRig(t)
	r.claims = claimtest.NewClaims(r.sub, r.open(publishersStream), r.records)
	runs, byKernel := 0, uint64(0)
	for _, cut := range []int64{5, 20, 27} {
		first, second := r.piece(0, cut), r.piece(cut, claimEnd)
		for _, credit := range []uint64{1 << 20, 33} {
			for i := 0; ; i++ {
				accesses := 0
				for j := i; j == i || j < accesses; j++ {
					r.claims.Reset(publishersStream, credit)
					claimtest.BeforeEach(func() { r.claims.SendAll(claimEnd, 20) }, func(n int) {
						accesses = n
						if n == i {
							r.seeAgain(first)
						}
						if n == j {
							r.seeAgain(second)
						}
					})
					r.check(credit)
					runs++
					byKernel += r.sub.Packets.Load()
				}
				if i >= accesses {
					break
				}
			}
		}
	}
	t.Logf("%d runs, the kernel sent %d packets", runs, byKernel)
	require.Greater(t, runs, 500)
	require.Greater(t, byKernel, uint64(runs/4))
}

func (r *kernelRig) check(credit uint64) {
	next, closed, fins := r.claims.Check(r.T)
	require.EqualValues(r, min(claimEnd, credit), next)
	require.Equal(r, credit >= claimEnd, closed)
	if closed {
		require.Equal(r, 1, fins)
	}
}

// TestKernelBeforeEnd runs the program between any two accesses while the stream is being reset, or its cursor moves to
// where the kernel does not see it: nothing is claimed after that.
func TestKernelBeforeEnd(t *testing.T) {
	r := newKernelRig(t)
	r.claims = claimtest.NewClaims(r.sub, r.open(publishersStream), r.records)
	p := r.piece(0, 10)
	for name, end := range map[string]func() int64{"reset": r.claims.Close, "moved": r.claims.Move} {
		byKernel := int64(0)
		for i, more := 0, true; more; i++ {
			r.claims.Reset(publishersStream, 1<<20)
			more = false
			var final int64
			claimtest.BeforeEach(func() { final = end() }, func(n int) {
				if n == i {
					r.seeAgain(p)
					more = true
				}
			})
			r.seeAgain(p)
			next, closed, _ := r.claims.Check(t)
			require.True(t, closed, name)
			require.Equal(t, final, next, name)
			byKernel += next
		}
		require.NotZero(t, byKernel, name)
	}
}

// TestKernelBeforeMove runs the program between any two accesses while the connection ends, and its state moves: the
// numbers that this process goes on with were not used by the kernel.
func TestKernelBeforeMove(t *testing.T) {
	r := newKernelRig(t)
	r.claims = claimtest.NewClaims(r.sub, r.open(publishersStream), r.records)
	byKernel := uint64(0)
	for i, more := 0, true; more; i++ {
		r.claims.Reset(publishersStream, 1<<20)
		first, second := r.piece(0, 10), r.piece(10, 20)
		more = false
		to := new(claim.ConnState)
		claimtest.BeforeEach(func() { r.sub.MoveTo(to) }, func(n int) {
			if n == i {
				r.see(first)
				more = true
			}
		})
		r.see(first)
		r.see(second)
		next, ok := to.TakeNumber()
		require.True(t, ok)
		require.Equal(t, next, r.sub.Packets.Load(), "the kernel has used as many numbers as were taken")
		_, recorded := claim.Ledger(r.records).Read(next)
		require.False(t, recorded, "the kernel has used number %d, too", next)
		require.Zero(t, r.sub.Writers.Load())
		byKernel += next
	}
	require.NotZero(t, byKernel)
}

// TestKernelRaces runs the program on several CPUs while this process claims from the same stream.
func TestKernelRaces(t *testing.T) {
	const runs, seed = 1500, 1
	r := newKernelRig(t)
	r.claims = claimtest.NewClaims(r.sub, r.open(publishersStream), r.records)
	random := rand.New(rand.NewPCG(seed, 0))
	byKernel := uint64(0)
	for range runs {
		credit := uint64(1 << 20)
		if random.IntN(4) == 0 {
			credit = random.Uint64N(claimEnd)
		}
		r.claims.Reset(publishersStream, credit)
		var packets [2][][]byte // the same bytes in two packets each
		for from := int64(0); from < claimEnd; {
			to := min(from+1+random.Int64N(15), claimEnd)
			for i := range packets {
				packets[i] = append(packets[i], r.piece(from, to))
			}
			from = to
		}
		piece, start, step := 1+random.Int64N(20), random.IntN(startTurns), 1+random.IntN(2000)
		var running sync.WaitGroup
		for i := range packets {
			running.Go(func() {
				for _, p := range packets[i] {
					r.see(p)
				}
			})
		}
		r.spin(start)
		claimtest.BeforeEach(func() { r.claims.SendAll(claimEnd, piece) }, func(int) { r.spin(step) })
		running.Wait()
		r.claims.SendAll(claimEnd, piece)
		r.check(credit)
		byKernel += r.sub.Packets.Load()
	}
	t.Logf("the kernel sent %d packets in %d runs", byKernel, runs)
	require.NotZero(t, byKernel)
}

// startTurns is about how long the program takes to begin after it is started.
const startTurns = 200_000

// spin waits for a time that is too short to sleep.
func (r *kernelRig) spin(turns int) {
	for range turns {
		r.sub.Window.Load()
	}
}

// TestKernelOpens opens the streams of a subscriber on both sides at the same time: each is opened once.
func TestKernelOpens(t *testing.T) {
	r := newKernelRig(t)
	const streams = int64(bpf.IngressCapacitySTREAM_SHARE) // as many as a connection may have
	byKernel, random := 0, rand.New(rand.NewPCG(1, 0))
	r.claims = claimtest.NewClaims(r.sub, new(claim.StreamState), r.records)
	r.claims.Reset(0, 1<<20)
	r.sub.NextUni.Store(3)
	r.sub.MaxUni.Store(1 << 20)
	for i := range streams {
		id := 4*i + 3
		header := moqt.AppendSubgroupHeader(nil, moqt.Versions()[0],
			moqt.SubgroupHeader{TrackAlias: 7, GroupID: uint64(i), SubgroupIDMode: moqt.SubgroupIDZero})
		p := r.packets.stream(kernelCID, id, 0, append(header, "object"...), false)
		before := r.sub.Packets.Load()
		var running sync.WaitGroup
		running.Go(func() { r.see(p) })
		r.spin(random.IntN(startTurns))
		state, opened := r.down.OpenStream(&claim.PublisherStream{Conn: r.publisher, StreamID: id})
		running.Wait()
		require.NotNil(t, state)
		if opened {
			byKernel++
			require.EqualValues(t, len(header)+len("object"), state.Next.Load())
			require.EqualValues(t, id, state.ID.Load())
			require.EqualValues(t, before+1, r.sub.Packets.Load())
		} else {
			require.EqualValues(t, before, r.sub.Packets.Load())
			taken, ok := r.claims.TakeStream()
			require.True(t, ok)
			require.Equal(t, id, taken)
		}
	}
	require.EqualValues(t, 4*streams+3, r.sub.NextUni.Load())
	t.Logf("the kernel opened %d of %d", byKernel, streams)
}

// TestStreamShare lets the kernel open as many streams as one connection may have. The next one is the media sender's
// alone, also when its first packet comes again after there is room. A stream that was closed is not opened again.
func TestStreamShare(t *testing.T) {
	const share = int64(bpf.IngressCapacitySTREAM_SHARE)
	r := newKernelRig(t)
	r.claims = claimtest.NewClaims(r.sub, new(claim.StreamState), r.records)
	r.claims.Reset(0, 1<<20)
	r.sub.NextUni.Store(3)
	r.sub.MaxUni.Store(1 << 20)
	header := func(i int64) moqt.SubgroupHeader {
		return moqt.SubgroupHeader{TrackAlias: 7, GroupID: uint64(i), SubgroupIDMode: moqt.SubgroupIDZero}
	}
	first := func(i int64) []byte {
		b := moqt.AppendSubgroupHeader(nil, moqt.Versions()[0], header(i))
		return r.packets.stream(kernelCID, 4*i+3, 0, append(b, "object"...), false)
	}
	open := func(i int64) (*claim.StreamState, bool) {
		return r.down.OpenStream(&claim.PublisherStream{Conn: r.publisher, StreamID: 4*i + 3})
	}
	for i := range share {
		r.see(first(i))
	}
	require.EqualValues(t, share, r.sub.Packets.Load())
	r.see(first(share))
	require.EqualValues(t, share, r.sub.Packets.Load())
	require.EqualValues(t, 1, r.fast.Copies(r.down)["stream_share"])
	state, _ := open(share)
	require.Nil(t, state)

	defer r.track.Receive(r.publisher, 3, header(0), 128, 0)()
	state, opened := open(0)
	require.True(t, opened)
	r.down.CloseStream(state)
	require.Eventually(t, func() bool { return r.sub.Slots.Load() < uint32(share) }, time.Minute, time.Millisecond)
	r.see(first(0))
	r.see(first(share))
	require.EqualValues(t, share, r.sub.Packets.Load(), "the media sender has or had those streams")
	r.see(first(share + 1))
	require.EqualValues(t, share+1, r.sub.Packets.Load())
	_, opened = open(share + 1)
	require.True(t, opened)
}

// peerPackets seals the packets of a peer, with keys from a traffic secret of zeros.
type peerPackets struct {
	seal packet.Sealer
	keys claim.PacketKeys
	next uint64
}

func newPeerPackets(t *testing.T) *peerPackets {
	secret := make([]byte, 32)
	p := new(peerPackets)
	m, err := packet.Derive(tls.TLS_CHACHA20_POLY1305_SHA256, packet.Version1, secret)
	require.NoError(t, err)
	copy(p.keys.Key[:], m.Key)
	copy(p.keys.IV[:], m.IV)
	copy(p.keys.HeaderProtection[:], m.HeaderProtection)
	key, err := packet.NewKey(0, tls.TLS_CHACHA20_POLY1305_SHA256, packet.Version1, secret)
	require.NoError(t, err)
	p.seal.Install(0, key)
	return p
}

// stream returns a packet with a STREAM frame.
func (p *peerPackets) stream(connectionID []byte, id, offset int64, data []byte, fin bool) []byte {
	b := append([]byte{0x40 | (packet.NumberLength - 1)}, connectionID...)
	b = append(b, byte(p.next>>24), byte(p.next>>16), byte(p.next>>8), byte(p.next))
	n := len(b)
	b = append(packet.AppendStreamHeader(b, id, offset, fin), data...)
	b = p.seal.Seal(append(b, make([]byte, packet.TagLength)...)[:len(b)], n, p.next, 0)
	p.seal.Protect()
	p.next++
	return b
}
