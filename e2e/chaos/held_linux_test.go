package chaos

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"sluice/lab/bench/procfs"
)

// held is what a relay holds: metrics, and entries of its maps in the kernel, by name.
type held map[string]float64

func (h held) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if h[name] > 0 {
			all = append(all, fmt.Sprintf("%s=%.0f", name, h[name]))
		}
	}
	return strings.Join(all, " ")
}

// slack is how much more a relay may hold at the end than at the start. What is not named here has no slack.
var slack = held{
	"go_goroutines":                 4,        // those that start at the first use, to stay
	"go_memstats_heap_alloc_bytes":  8 << 20,  // after a garbage collection
	"process_resident_memory_bytes": 48 << 20, // the Go runtime gives memory back slowly
	"process_open_fds":              4,
}

// heldMetrics are the metrics that are compared.
var heldMetrics = []string{
	"go_goroutines", "go_memstats_heap_alloc_bytes", "process_resident_memory_bytes", "process_open_fds",
	"sluice_relay_sessions", "sluice_relay_tracks", "sluice_relay_upstream_subscriptions",
	"sluice_relay_downstream_subscriptions", "sluice_relay_cache_bytes", "sluice_relay_cache_groups",
	"sluice_relay_accounts", "sluice_relay_open_requests",
}

// heldByRTSP are more of them, of a relay that serves RTSP.
var heldByRTSP = []string{
	"sluice_relay_guests", "sluice_rtsp_publishers", "sluice_rtsp_players", "sluice_rtsp_uplinks",
	"sluice_rtsp_broadcasts", "sluice_rtsp_cache_bytes",
}

// holds returns what a relay holds now.
func (r *relay) holds() (held, error) {
	for range 2 { // the second one frees what pools kept at the first
		if _, err := r.get("/debug/pprof/heap?gc=1"); err != nil { // collects garbage
			return nil, err
		}
	}
	text, err := r.get("/metrics")
	if err != nil {
		return nil, err
	}
	h, all := make(held), procfs.ParsePrometheus(text)
	names := heldMetrics
	if r.rtsp != 0 {
		names = slices.Concat(names, heldByRTSP)
	}
	for _, name := range names {
		value, ok := all[name]
		if !ok {
			return nil, fmt.Errorf("there is no metric %s", name)
		}
		h[name] = value
	}
	// The relay makes and frees maps while it runs.
	if r.bpf, err = objectsOf(r.cmd.Process.Pid); err != nil {
		return nil, err
	}
	return h, r.bpf.addEntries(h)
}

// beyond names the values that exceed start's.
func (h held) beyond(start held) (names []string) {
	for name, value := range h {
		if most := start[name] + slack[name]; value > most {
			names = append(names, fmt.Sprintf("%s: %.0f, at most %.0f", name, value, most))
		}
	}
	slices.Sort(names)
	return names
}

// empty says that a relay holds nothing of any peer.
var empty = held{
	"go_goroutines": 1e9, "go_memstats_heap_alloc_bytes": 1e12, "process_resident_memory_bytes": 1e12,
	"process_open_fds": 1e9,
}

// settle waits until a relay holds no more than at the start, and returns what it holds then.
func (r *relay) settle(start held) (held, error) {
	if err := r.awaitReplaced(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(500 * time.Millisecond) {
		now, err := r.holds()
		if err != nil {
			return nil, r.failure(err)
		}
		more := now.beyond(start)
		if len(more) == 0 {
			return now, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s still holds more than at the start:\n  %s\n%s", r.name,
				strings.Join(more, "\n  "), r.largest()+"\n"+r.goroutines())
		}
	}
}

// largest returns the stacks that have allocated most of what the relay holds.
func (r *relay) largest() string {
	const records = 8
	text, err := r.get("/debug/pprof/heap?debug=1")
	if err != nil {
		return err.Error()
	}
	all := strings.Split(text, "\n\n") // those with most bytes are first
	return strings.Join(all[:min(len(all), records)], "\n\n")
}

// goroutines returns the stacks of all goroutines, equal ones once.
func (r *relay) goroutines() string {
	text, err := r.get("/debug/pprof/goroutine?debug=1")
	if err != nil {
		return err.Error()
	}
	return text
}

// kernelObjects are the BPF objects of a process, by their kind in /proc/PID/fdinfo.
type kernelObjects map[string][]int

// objectsOf returns the objects of a process.
func objectsOf(pid int) (kernelObjects, error) {
	o := make(kernelObjects)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			id, err := strconv.Atoi(strings.TrimSpace(value))
			if err == nil && (key == "map_id" || key == "prog_id") && !slices.Contains(o[key], id) {
				o[key] = append(o[key], id)
			}
		}
	}
	return o, nil
}

// without returns the objects that others has not.
func (o kernelObjects) without(others kernelObjects) kernelObjects {
	rest := make(kernelObjects)
	for kind, ids := range o {
		for _, id := range ids {
			if !slices.Contains(others[kind], id) {
				rest[kind] = append(rest[kind], id)
			}
		}
	}
	return rest
}

// addEntries adds the number of entries of each hash map, by its name. It leaves out maps that the kernel keeps within
// their size by itself (LRU), and arrays, which never change theirs.
func (o kernelObjects) addEntries(h held) error {
	for _, id := range o["map_id"] {
		m, err := ebpf.NewMapFromID(ebpf.MapID(id))
		if errors.Is(err, os.ErrNotExist) {
			continue // freed meanwhile
		}
		if err != nil {
			return err
		}
		info, err := m.Info()
		if err == nil && (m.Type() == ebpf.Hash || m.Type() == ebpf.HashOfMaps) {
			h[info.Name] += float64(entries(m))
		}
		if err := errors.Join(err, m.Close()); err != nil {
			return err
		}
	}
	return nil
}

// entries counts the entries of a hash map, which may change meanwhile.
func entries(m *ebpf.Map) (n int) {
	key, err := m.NextKeyBytes(nil)
	for ; key != nil && err == nil && n <= int(m.MaxEntries()); n++ {
		key, err = m.NextKeyBytes(key)
	}
	return n
}

// awaitGone waits until none of the objects exists: the kernel frees them after a grace period.
func (o kernelObjects) awaitGone() error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var left []string
		for kind, ids := range o {
			for _, id := range ids {
				if exists(kind, id) {
					left = append(left, fmt.Sprintf("%s %d", kind, id))
				}
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the kernel still has %v", left)
		}
	}
}

func exists(kind string, id int) bool {
	if kind == "map_id" {
		m, err := ebpf.NewMapFromID(ebpf.MapID(id))
		if err == nil {
			_ = m.Close()
		}
		return !errors.Is(err, os.ErrNotExist)
	}
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err == nil {
		_ = p.Close()
	}
	return !errors.Is(err, os.ErrNotExist)
}
