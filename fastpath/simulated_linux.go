package fastpath

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"sluice/claim"
	"sluice/fastpath/bpf"
)

// Table is a map that the programs share with this process: an [ebpf.Map], or one of a [Machine].
type Table interface {
	Lookup(key, value any) error
	LookupAndDelete(key, value any) error
	BatchLookup(cursor *ebpf.MapBatchCursor, keys, values any, opts *ebpf.BatchOptions) (int, error)
	Update(key, value any, flags ebpf.MapUpdateFlags) error
	Delete(key any) error
}

// Tables are the maps that are no memory, by their names in C.
type Tables struct {
	Aliases, ConnectionIds, Downstreams, Ended, FirstStreams, FreeStreams, Objects, Reasons, Subgroups Table
}

func tablesOf(o *bpf.IngressObjects) Tables {
	return Tables{
		Aliases: o.Aliases, ConnectionIds: o.ConnectionIds, Downstreams: o.Downstreams, Ended: o.Ended,
		FirstStreams: o.FirstStreams, FreeStreams: o.FreeStreams, Objects: o.Objects, Reasons: o.Reasons,
		Subgroups: o.Subgroups,
	}
}

// Machine replaces the kernel in simulations: memory of this process, and functions that do the same as the kernel, or
// a wait for it, does. Arrays have all their elements from the beginning; FreeStreams has all slots.
type Machine struct {
	Tables
	Paths, Tracks               Table // by bpf.VersionKey
	PathVersions, TrackVersions []uint64

	Conns                    []claim.ConnState
	Streams                  []claim.StreamState
	Keys                     []bpf.SendKeys
	Copies                   []bpf.CopyCounts
	Publishers               []bpf.Publisher
	HeldByEach, HeldByAll    []bpf.Held
	MaxSubgroups, MaxObjects uint32
	Ledger                   func(connection uint32) []claim.Record
	KeyStreams               func(ring uint32) []bpf.KeyStream

	// AwaitUnused returns when all runs that have begun before have ended.
	AwaitUnused func()
	// Spin waits for a run to do something, and returns false if that takes too long. The caller may hold locks.
	Spin func(done func() bool) bool
	// Close stops the programs.
	Close func()
}

// Simulate makes a FastPath whose programs run on a machine in this process.
func Simulate(m *Machine, s Settings, logger *slog.Logger) (*FastPath, error) {
	names, err := simulatedReasons()
	if err != nil {
		return nil, err
	}
	k := &kernel{
		machine: m, tables: m.Tables, reasons: names, measuring: make([]uint64, 1),
		maxConns: uint32(len(m.Conns)), maxStreams: uint32(len(m.Streams)), maxTracks: uint32(len(m.TrackVersions)),
		conns: cast[bpf.ConnState](m.Conns), streams: cast[bpf.StreamState](m.Streams), keys: m.Keys,
		copies: m.Copies, publishers: m.Publishers,
		shares: shares{
			own: m.HeldByEach, all: m.HeldByAll, sizes: [bpf.IngressShareKindSHARE_KINDS]uint32{
				shareSubgroups: m.MaxSubgroups, shareObjects: m.MaxObjects,
			},
			since: make([]atomic.Uint64, len(m.Conns)),
		},
		ledgers:    &lent[claim.Record]{heap: m.Ledger},
		keyStreams: &lent[bpf.KeyStream]{heap: m.KeyStreams},
	}
	k.paths, k.tracks = newVersioned[bpf.Path](m.Paths, k.awaitUnused), newVersioned[bpf.Track](m.Tracks, k.awaitUnused)
	k.paths.current, k.tracks.current = m.PathVersions, m.TrackVersions
	return newFastPath(k, s, logger), nil
}

var simulatedReasons = sync.OnceValues(func() ([]string, error) {
	spec, err := bpf.LoadIngress()
	if err != nil {
		return nil, err
	}
	return reasonNames(spec.Types)
})
