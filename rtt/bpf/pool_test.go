//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/stretchr/testify/require"
)

// loaded has loaded programs, and a reader of their events.
type loaded struct {
	*Monitor
	events *ringbuf.Reader
}

// pool has loaded programs that no test uses, by their settings and names: the verifier takes most of a test's time.
var pool = struct {
	sync.Mutex
	free map[string][]loaded
}{free: make(map[string][]loaded)}

// borrow returns programs whose maps are as they were when they were loaded. The end of the test gives them back.
func borrow(t testing.TB, s MonitorSettings, programs []string) loaded {
	t.Helper()
	key := fmt.Sprint(s, programs)
	pool.Lock()
	defer pool.Unlock()
	var l loaded
	if free := pool.free[key]; len(free) > 0 {
		l, pool.free[key] = free[len(free)-1], free[:len(free)-1]
	} else {
		l = load(t, s, programs)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		l.empty(t)
		pool.Lock()
		defer pool.Unlock()
		pool.free[key] = append(pool.free[key], l)
	})
	return l
}

func load(t testing.TB, s MonitorSettings, programs []string) loaded {
	t.Helper()
	m, err := Load(s, testLimits, programs...)
	if verifier, ok := errors.AsType[*ebpf.VerifierError](err); ok {
		t.Fatalf("%+v", verifier)
	}
	require.NoError(t, err)
	events, err := ringbuf.NewReader(m.Maps[MonitorMapEvents])
	require.NoError(t, err)
	return loaded{m, events}
}

// empty restores maps and variables.
func (l loaded) empty(t testing.TB) {
	t.Helper()
	(&watch{t: t, m: l.Monitor, events: l.events}).raw()
	for name, m := range l.Maps {
		var err error
		switch kind := m.Type(); {
		case kind == ebpf.RingBuf || strings.HasPrefix(name, ".rodata"):
		case kind == ebpf.Array || kind == ebpf.PerCPUArray:
			err = zero(m)
		default:
			err = clearKeys(m)
		}
		require.NoError(t, err, name)
	}
}

// zero sets all elements of an array.
func zero(m *ebpf.Map) error {
	var nothing any = make([]byte, m.ValueSize())
	if m.Type() == ebpf.PerCPUArray {
		nothing = slices.Repeat([][]byte{make([]byte, m.ValueSize())}, ebpf.MustPossibleCPU())
	}
	for i := range m.MaxEntries() {
		if err := m.Put(i, nothing); err != nil {
			return err
		}
	}
	return nil
}

// clearKeys deletes all elements of a table.
func clearKeys(m *ebpf.Map) error {
	var key []byte
	for {
		err := m.NextKey(nil, &key)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err == nil {
			err = m.Delete(key)
		}
		if err != nil {
			return err
		}
	}
}
