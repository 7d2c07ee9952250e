package networks

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// maxNetworks limits the networks of a Table. The network that was not measured for the longest time makes room.
	maxNetworks = 16384
	// kept is how many RTTs of a network are kept, if they are added one by one.
	kept = 31
)

// Network is a network, and how far it is.
type Network struct {
	Prefix netip.Prefix  `json:"prefix"`
	Median time.Duration `json:"median_ns"`
	Count  uint64        `json:"count"`  // of the RTTs that it is the median of
	Age    time.Duration `json:"age_ns"` // since the last one
}

// A Table holds how far networks are. Its methods may be called on any goroutine. Make one with [New].
type Table struct {
	ipv4, ipv6 int // bits of the prefixes
	now        func() time.Time

	mu sync.Mutex // guards the values of all
	of *lru.Cache[netip.Prefix, *entry]
}

// entry has either a median, or the last RTTs, the oldest at next.
type entry struct {
	measured time.Time
	median   time.Duration
	count    uint64
	rtts     []time.Duration
	next     int
}

// New returns a table of prefixes of the given lengths in bits.
func New(ipv4, ipv6 int) *Table {
	of, _ := lru.New[netip.Prefix, *entry](maxNetworks) // fails only if the number is not positive
	return &Table{ipv4: ipv4, ipv6: ipv6, now: time.Now, of: of}
}

// prefix returns the network of an address.
func (t *Table) prefix(a netip.Addr) netip.Prefix {
	bits := t.ipv6
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = t.ipv4
	}
	p, _ := a.Prefix(bits) // the zero Prefix for the zero address
	return p
}

// entryLocked returns the entry of a network, which was measured now.
func (t *Table) entryLocked(p netip.Prefix) *entry {
	e, known := t.of.Get(p)
	if !known {
		e = new(entry)
		t.of.Add(p, e)
	}
	e.measured = t.now()
	return e
}

// Add adds an RTT to a host.
func (t *Table) Add(host netip.Addr, rtt time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entryLocked(t.prefix(host))
	if e.count = min(e.count+1, kept); len(e.rtts) < kept {
		e.rtts = append(e.rtts, rtt)
		return
	}
	e.rtts[e.next] = rtt
	e.next = (e.next + 1) % kept
}

// Set replaces a network's RTTs by their median and count. It ignores prefixes of another length.
func (t *Table) Set(p netip.Prefix, median time.Duration, count uint64) {
	if p != t.prefix(p.Addr()) || count == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entryLocked(p)
	e.median, e.count = median, count
}

// RTT returns how far the network of an address is, if that is known.
func (t *Table) RTT(a netip.Addr) (n Network, known bool) {
	p := t.prefix(a)
	t.mu.Lock()
	defer t.mu.Unlock()
	e, known := t.of.Peek(p)
	if known {
		n = e.network(p, t.now())
	}
	return n, known
}

// Nearest returns the nearest networks, at most the given number.
func (t *Table) Nearest(most int) []Network {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, now := make([]Network, 0, t.of.Len()), t.now()
	for _, p := range t.of.Keys() {
		if e, ok := t.of.Peek(p); ok {
			list = append(list, e.network(p, now))
		}
	}
	slices.SortFunc(list, func(a, b Network) int {
		return cmp.Or(cmp.Compare(a.Median, b.Median), a.Prefix.Compare(b.Prefix))
	})
	return list[:min(len(list), most)]
}

func (e *entry) network(p netip.Prefix, now time.Time) Network {
	n := Network{Prefix: p, Median: e.median, Count: e.count, Age: now.Sub(e.measured)}
	if len(e.rtts) > 0 {
		sorted := slices.Sorted(slices.Values(e.rtts))
		n.Median = sorted[(len(sorted)-1)/2]
	}
	return n
}

// ServeHTTP answers how far a network is (/rtt?to=192.0.2.7, or a prefix instead of the address), or which networks are
// nearest (/rtt).
func (t *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := r.URL.Query().Get("to")
	if to == "" {
		writeJSON(w, answer{t.Nearest(MaxAnswer)})
		return
	}
	a, err := parseAddress(to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n, known := t.RTT(a)
	if !known {
		http.Error(w, "no RTT to that network was measured", http.StatusNotFound)
		return
	}
	writeJSON(w, n)
}
