package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

// kernel is the loaded programs and the memory that they share with this process. Both end when it is closed, or with
// the process.
type kernel struct {
	ingress bpf.IngressObjects
	tables  Tables // of ingress
	egress  bpf.EgressObjects
	links   []link.Link
	mapped  [][]byte
	reasons []string // names, by number

	// The arrays below that grow; their elements have one index.
	byConn, byStream, byTrack       []*growing
	maxConns, maxStreams, maxTracks uint32

	conns      []bpf.ConnState
	streams    []bpf.StreamState
	keys       []bpf.SendKeys
	copies     []bpf.CopyCounts
	publishers []bpf.Publisher
	shares     shares
	paths      *versioned[bpf.Path]  // by connection
	tracks     *versioned[bpf.Track] // by track; one part or more
	ledgers    *lent[claim.Record]
	keyStreams *lent[bpf.KeyStream] // for connections that the kernel sends to, or whose packets it opens
	protocols  []protocol
	measuring  []uint64 // one: whether delays are measured
	report     func(operation string, err error)
	machine    *Machine // in simulations: instead of programs
}

// load loads the programs. They do nothing until they are attached to a device.
func load(s Settings) (_ *kernel, err error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	k := new(kernel)
	defer func() {
		if err != nil {
			k.Close()
		}
	}()
	if err := k.load(s); err != nil {
		return nil, fmt.Errorf("fast path: load the programs: %w", err)
	}
	for _, f := range []func() error{
		func() error { return keepGrowing(k.ingress.Connections, &k.byConn, &k.conns) },
		func() error { return keepGrowing(k.ingress.Keys, &k.byConn, &k.keys) },
		func() error { return keepGrowing(k.ingress.Copies, &k.byConn, &k.copies) },
		func() error { return keepGrowing(k.ingress.Publishers, &k.byConn, &k.publishers) },
		func() error { return keepGrowing(k.ingress.HeldByEach, &k.byConn, &k.shares.own) },
		func() error { return keepGrowing(k.ingress.PathVersions, &k.byConn, &k.paths.current) },
		func() error { return keepGrowing(k.ingress.Streams, &k.byStream, &k.streams) },
		func() error { return keepGrowing(k.ingress.TrackVersions, &k.byTrack, &k.tracks.current) },
		func() error { return keepMapped(k, k.ingress.HeldByAll, &k.shares.all) },
		func() error { return k.loadProtocols(&s) },
		func() error { return keepMapped(k, k.ingress.Measuring, &k.measuring) },
		func() error { return growAll(slices.Concat(k.byConn, k.byTrack), 1) },
		func() error { return k.growStreams(firstStreams) },
	} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *kernel) load(s Settings) error {
	spec, err := bpf.LoadIngress()
	if err != nil {
		return err
	}
	if k.reasons, err = reasonNames(spec.Types); err != nil {
		return err
	}
	k.maxConns = uint32(cmp.Or(s.MaxConnections, DefaultMaxConnections))
	k.maxStreams = k.maxConns * uint32(bpf.IngressCapacitySTREAMS_PER_CONNECTION)
	for name, perConnection := range map[string]bpf.IngressCapacity{
		bpf.IngressMapPaths:         2,
		bpf.IngressMapLedgers:       1,
		bpf.IngressMapLookaheads:    bpf.IngressCapacity(bpf.IngressLookaheadRingRINGS),
		bpf.IngressMapConnectionIds: bpf.IngressCapacityIDS_PER_CONNECTION,
		bpf.IngressMapDownstreams:   bpf.IngressCapacitySTREAMS_PER_CONNECTION,
		bpf.IngressMapFreeStreams:   bpf.IngressCapacitySTREAMS_PER_CONNECTION,
	} {
		spec.Maps[name].MaxEntries = k.maxConns * uint32(perConnection)
	}
	k.maxTracks = uint32(cmp.Or(s.MaxTracks, DefaultMaxTracks))
	for name, elements := range map[string]uint32{
		bpf.IngressMapConnections:   k.maxConns,
		bpf.IngressMapPublishers:    k.maxConns,
		bpf.IngressMapKeys:          k.maxConns,
		bpf.IngressMapCopies:        k.maxConns,
		bpf.IngressMapHeldByEach:    k.maxConns,
		bpf.IngressMapPathVersions:  k.maxConns,
		bpf.IngressMapStreams:       k.maxStreams,
		bpf.IngressMapTrackVersions: k.maxTracks,
	} {
		setGrowing(spec.Maps[name], elements)
	}
	spec.Maps[bpf.IngressMapTracks].MaxEntries = 2 * trackParts(k.maxTracks) // an old and a new version
	spec.Maps[bpf.IngressMapAliases].MaxEntries = k.maxTracks
	subgroups := uint32(cmp.Or(s.MaxSubgroups, DefaultMaxSubgroups))
	objects := uint32(cmp.Or(s.MaxObjects, DefaultMaxObjects))
	spec.Maps[bpf.IngressMapSubgroups].MaxEntries = subgroups
	spec.Maps[bpf.IngressMapEnded].MaxEntries = subgroups
	spec.Maps[bpf.IngressMapFirstStreams].MaxEntries = 2 * subgroups
	spec.Maps[bpf.IngressMapObjects].MaxEntries = objects
	k.shares.sizes = [bpf.IngressShareKindSHARE_KINDS]uint32{shareSubgroups: subgroups, shareObjects: objects}
	k.shares.since = make([]atomic.Uint64, k.maxConns)
	if err := s.prepare(spec, map[string]any{
		bpf.IngressVarExtentShift:      extentShift,
		bpf.IngressVarRelayPort:        bigEndian16(s.Port),
		bpf.IngressVarConnectionIdLen:  uint32(s.ConnectionIDLen),
		bpf.IngressVarConnectionIdMask: connectionIDMask(s.ConnectionIDLen),
		bpf.IngressVarShareSizes:       k.shares.sizes,
		bpf.IngressVarMaxCopies:        uint32(cmp.Or(s.MaxCopies, DefaultMaxCopies)),
	}); err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&k.ingress, nil); err != nil {
		return err
	}
	k.tables = tablesOf(&k.ingress)
	k.paths = newVersioned[bpf.Path](k.ingress.Paths, k.awaitUnused)
	k.tracks = newVersioned[bpf.Track](k.ingress.Tracks, k.awaitUnused)
	if k.ledgers, err = newLent[claim.Record](k.ingress.Ledgers, claim.LedgerLen); err != nil {
		return err
	}
	if k.keyStreams, err = newLent[bpf.KeyStream](k.ingress.Lookaheads, uint32(ringLen)); err != nil {
		return err
	}
	return k.loadEgress(s)
}

// prepare sets the variables of programs, and puts the operator's rule into them.
func (s *Settings) prepare(spec *ebpf.CollectionSpec, variables map[string]any) error {
	for name, value := range variables {
		if err := spec.Variables[name].Set(value); err != nil {
			return err
		}
	}
	if s.Rule == nil {
		return nil
	}
	return s.Rule.link(spec)
}

func (k *kernel) loadEgress(s Settings) error {
	spec, err := bpf.LoadEgress()
	if err != nil {
		return err
	}
	if err := s.prepare(spec, map[string]any{
		bpf.EgressVarRelayPort: bigEndian16(s.Port), bpf.EgressVarRtpPort: bigEndian16(s.RTPPort),
	}); err != nil {
		return err
	}
	return spec.LoadAndAssign(&k.egress, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{
		bpf.EgressMapScratches: k.ingress.Scratches,
		bpf.EgressMapNeighbors: k.ingress.Neighbors,
	}})
}

// trackParts returns how many parts the lists of subscriptions may have: one for each track, or full lists of fewer.
func trackParts(tracks uint32) uint32 {
	const full = MaxSubscriptions / uint32(partLen)
	return max(tracks, full*min(tracks, uint32(bpf.IngressCapacityFULL_TRACKS)))
}

// connectionIDMask returns three words with ones where a connection ID of n bytes lies.
func connectionIDMask(n int) (mask [3]uint64) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&mask)), unsafe.Sizeof(mask))
	for i := range n {
		b[i] = 0xff
	}
	return mask
}

// keepMapped makes the elements of an array map accessible in memory, until k is closed.
func keepMapped[T any](k *kernel, m *ebpf.Map, elements *[]T) error {
	n, size := m.MaxEntries(), unsafe.Sizeof(*new(T))
	if uintptr(m.ValueSize()) != size {
		return fmt.Errorf("fast path: elements of %s have %d bytes, not %d", m, m.ValueSize(), size)
	}
	mapped, err := unix.Mmap(m.FD(), 0, int(n)*int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("fast path: map %s: %w", m, err)
	}
	*elements, k.mapped = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mapped))), n), append(k.mapped, mapped)
	return nil
}

// Attach attaches the programs to a device, for the publishers and subscribers behind it.
func (k *kernel) Attach(ifindex int) error {
	if len(k.links) == 0 {
		for _, p := range k.protocols {
			if err := p.start(); err != nil {
				return fmt.Errorf("fast path: %w", err)
			}
		}
	}
	type hook struct {
		program *ebpf.Program
		at      ebpf.AttachType
	}
	// Egress first: without it, a clone would leave as the publisher's packet.
	hooks := []hook{{k.egress.ClientEgress, ebpf.AttachTCXEgress}, {k.ingress.ServerIngress, ebpf.AttachTCXIngress}}
	for _, p := range k.protocols {
		hooks = append(hooks, hook{p.program(), ebpf.AttachTCXIngress})
	}
	for _, a := range hooks {
		l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: a.program, Attach: a.at})
		if err != nil {
			return fmt.Errorf("fast path: attach to device %d (TCX needs Linux 6.6): %w", ifindex, err)
		}
		k.links = append(k.links, l)
	}
	return nil
}

// awaitUnused returns when all program runs that have begun before have ended, and all work that they have given to
// threads of protocols.
func (k *kernel) awaitUnused() {
	if k.machine != nil {
		k.machine.AwaitUnused()
		return
	}
	awaitGracePeriod()
	for _, p := range k.protocols {
		p.awaitUnused()
	}
}

// openingTimeout allows for virtual machines whose CPUs do not run for a while.
var openingTimeout = time.Second

// spin waits some microseconds, until a program on another CPU has done something. It returns false if that takes too
// long.
func (k *kernel) spin(done func() bool) bool {
	if k.machine != nil {
		return k.machine.Spin(done)
	}
	for deadline := time.Now().Add(openingTimeout); !done(); runtime.Gosched() {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Close detaches the programs and gives back their memory. Nothing that came from k may be used afterwards.
func (k *kernel) Close() error {
	if k.machine != nil {
		k.machine.Close()
		return nil
	}
	var errs []error
	for i := len(k.links) - 1; i >= 0; i-- {
		errs = append(errs, k.links[i].Close())
	}
	for _, p := range k.protocols {
		errs = append(errs, p.close())
	}
	for _, b := range k.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	for _, g := range slices.Concat(k.byConn, k.byStream, k.byTrack) {
		errs = append(errs, g.close())
	}
	if k.ledgers != nil {
		errs = append(errs, k.ledgers.close())
	}
	if k.keyStreams != nil {
		errs = append(errs, k.keyStreams.close())
	}
	k.mapped, k.links, k.protocols, k.byConn, k.byStream, k.byTrack = nil, nil, nil, nil, nil, nil
	return errors.Join(append(errs, k.ingress.Close(), k.egress.Close())...)
}

// SetPath sets how a subscriber is reached, from the next packet on. Its link-layer address is the last one that the
// stack used.
func (k *kernel) SetPath(subscriber uint32, p claim.Path, s claim.Session) error {
	v, err := pathOf(&p, &s)
	if err != nil {
		return err
	}
	return k.paths.put(subscriber, v)
}

// AddConnectionID assigns packets with a destination connection ID to a publisher.
func (k *kernel) AddConnectionID(cid []byte, publisher uint32) error {
	return k.tables.ConnectionIds.Update(connectionID(cid), publisher, ebpf.UpdateAny)
}

// SetAlias assigns a publisher's alias to a track.
func (k *kernel) SetAlias(publisher uint32, alias uint64, track uint32) error {
	return k.tables.Aliases.Update(bpf.AliasKey{Alias: alias, Publisher: publisher}, track, ebpf.UpdateAny)
}

// RemoveAlias undoes SetAlias.
func (k *kernel) RemoveAlias(publisher uint32, alias uint64) error {
	return k.tables.Aliases.Delete(bpf.AliasKey{Alias: alias, Publisher: publisher})
}

// Counts returns how often each reason was counted, by name.
func (k *kernel) Counts() (map[string]uint64, error) {
	counts := make(map[string]uint64, len(k.reasons))
	var perCPU []uint64
	for reason, name := range k.reasons {
		if err := k.tables.Reasons.Lookup(uint32(reason), &perCPU); err != nil {
			return nil, fmt.Errorf("fast path: read the counter of %s: %w", name, err)
		}
		for _, n := range perCPU {
			counts[name] += n
		}
	}
	return counts, nil
}

// Copies returns the number of copies for a subscriber, by reason, see [FastPath.Copies].
func (k *kernel) Copies(index uint32) map[string]uint64 {
	counts := make(map[string]uint64)
	for i := range k.copies[index].ByReason {
		if n := atomic.LoadUint64(&k.copies[index].ByReason[i]); n > 0 {
			counts[strings.TrimPrefix(k.reasons[int(bpf.IngressReasonCOPY_SENT)+i], "copy_")] = n
		}
	}
	return counts
}

// growStreams makes slots until there are n, and puts them on the stack of free ones.
func (k *kernel) growStreams(n uint32) error {
	made := min(madeOfAll(k.byStream), k.maxStreams)
	if err := growAll(k.byStream, min(n, k.maxStreams)); err != nil {
		return err
	}
	for slot := made; slot < min(madeOfAll(k.byStream), k.maxStreams); slot++ {
		if err := k.tables.FreeStreams.Update(nil, slot, ebpf.UpdateAny); err != nil {
			return err
		}
	}
	return nil
}

// addSubgroup makes a subgroup known that the kernel has not seen the beginning of. The error is [ebpf.ErrKeyExist] if
// the kernel was faster, and errShare if the publisher has its share.
func (k *kernel) addSubgroup(key bpf.StreamKey, g bpf.Subgroup) error {
	if !k.shares.mayHold(key.Publisher, shareSubgroups) {
		return errShare
	}
	err := k.tables.Subgroups.Update(key, g, ebpf.UpdateNoExist)
	if err == nil {
		k.shares.hold(key.Publisher, shareSubgroups)
		_ = k.tables.FirstStreams.Update(firstKey(key, &g), key.StreamId, ebpf.UpdateNoExist) // fails if there is one
	}
	return err
}

// firstKey returns the key of the subgroup that a stream brings.
func firstKey(stream bpf.StreamKey, g *bpf.Subgroup) bpf.SubgroupKey {
	return bpf.SubgroupKey{Group: g.Group, Subgroup: g.Subgroup, Track: g.Track, Publisher: stream.Publisher}
}

// forgetFirst forgets that a stream brought a subgroup first, if it did.
func (k *kernel) forgetFirst(stream uint64, of bpf.SubgroupKey) {
	var first uint64
	if k.tables.FirstStreams.Lookup(of, &first) == nil && first == stream {
		_ = k.tables.FirstStreams.Delete(of) // fails if the connection has just ended
	}
}

// removeSubgroup undoes that. No program may be reading the subgroup.
func (k *kernel) removeSubgroup(key bpf.StreamKey) error {
	err := k.tables.Subgroups.Delete(key)
	if err == nil {
		k.shares.release(key.Publisher, shareSubgroups, false)
	}
	return err
}

// addObject claims an object. The error is [ebpf.ErrKeyExist] if it is claimed already, and errShare if the publisher
// has its share.
func (k *kernel) addObject(key bpf.ObjectKey, publisher uint32) error {
	if !k.shares.mayHold(publisher, shareObjects) {
		return errShare
	}
	claim := bpf.ObjectClaim{State: objectDone, Claimed: monotonic(), Publisher: publisher}
	err := k.tables.Objects.Update(key, claim, ebpf.UpdateNoExist)
	if err == nil {
		k.shares.hold(publisher, shareObjects)
	}
	return err
}

// reasonNames returns the labels of the programs' counters: the names of enum reason (bpf/shared/reason.h) in lower
// case.
func reasonNames(types *btf.Spec) ([]string, error) {
	var reasons *btf.Enum
	if err := types.TypeByName("reason", &reasons); err != nil {
		return nil, fmt.Errorf("fast path: the names of reasons: %w", err)
	}
	var names []string
	for _, v := range reasons.Values {
		if bpf.Reason(v.Value) != bpf.IngressReasonREASON_COUNT {
			names = append(names, strings.ToLower(v.Name))
		}
	}
	return names, nil
}
