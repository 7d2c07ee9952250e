package fastpath

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"sluice/fastpath/bpf"
	"sluice/moqt"
)

const (
	objectDone         = uint64(bpf.IngressObjectLayoutOBJECT_DONE)
	objectVersionShift = bpf.IngressObjectLayoutVERSION_SHIFT
	objectVersionMask  = 1<<31 - 1
	objectSentToAll    = 1<<objectVersionShift - 1
	// objectFor is how long the claim of an object is kept: longer than its packet takes from the kernel to user space.
	// After that its track's first location keeps the kernel from sending it again.
	objectFor = 10 * time.Second
)

// offered is the beginning of a list of subscribers that the kernel has, or had: those that may get objects in
// datagrams.
type offered struct {
	version     uint32
	subscribers []Subscriber
	until       time.Time // zero: the kernel still has the list
}

// ClaimObject claims an object that came in a datagram, so that the kernel sends it to no more subscribers. It returns
// the subscribers to whom the kernel has sent it already.
func (t *ForwardedTrack) ClaimObject(at moqt.Location) (sent []Subscriber) {
	if t == nil || !t.fast.enter() {
		return nil
	}
	defer t.fast.exit()
	if t.fast.registry.track(t.index) != t {
		return nil // closed
	}
	key := bpf.ObjectKey{Group: at.Group, Object: at.Object, Track: t.index}
	err := t.claim(key)
	if err == nil {
		return nil
	}
	if !errors.Is(err, ebpf.ErrKeyExist) { // there is no room, or the track is not on the fast path
		t.raise(at)
	}
	state, ok := t.awaitDone(key)
	if !ok {
		return nil
	}
	return t.sentTo(state)
}

// claim claims an object of a track that is on the fast path.
func (t *ForwardedTrack) claim(key bpf.ObjectKey) error {
	t.mu.Lock()
	from := t.from
	t.mu.Unlock()
	if from == nil {
		return ebpf.ErrKeyNotExist
	}
	return t.fast.kernel.addObject(key, from.index)
}

// awaitDone waits until the kernel, on another CPU, sends an object to no more subscribers, and returns the state of
// the claim. The wait is short, since the packet with the object has reached user space. If it takes too long,
// awaitDone answers as if the kernel had sent the object to all subscribers: some may miss it, but none gets it twice.
func (t *ForwardedTrack) awaitDone(key bpf.ObjectKey) (state uint64, ok bool) {
	var claim bpf.ObjectClaim
	done := t.fast.kernel.spin(func() bool {
		ok = t.fast.kernel.tables.Objects.Lookup(key, &claim) == nil
		return !ok || claim.State&objectDone != 0
	})
	if !done {
		return claim.State | objectSentToAll, true
	}
	return claim.State, ok
}

// sentTo decodes the state of a claim. It has no version until the kernel, which may be late, has found the list.
func (t *ForwardedTrack) sentTo(state uint64) (sent []Subscriber) {
	t.mu.Lock()
	defer t.mu.Unlock()
	version := uint32(state>>objectVersionShift) & objectVersionMask
	for _, o := range t.offered {
		if o.version != version && version != 0 {
			continue
		}
		for i, s := range o.subscribers {
			if state>>i&1 != 0 {
				sent = append(sent, s)
			}
		}
	}
	return sent
}

// offerLocked notes which list of subscribers the kernel is about to get, and returns its version.
func (t *ForwardedTrack) offerLocked(subscribers []Subscriber) uint32 {
	now := time.Now()
	t.offered = slices.DeleteFunc(t.offered, func(o offered) bool {
		return !o.until.IsZero() && now.Sub(o.until) > objectFor
	})
	if n := len(t.offered); n > 0 {
		t.offered[n-1].until = now
	}
	t.version = t.version%objectVersionMask + 1
	t.offered = append(t.offered, offered{version: t.version, subscribers: subscribers})
	return t.version
}

// Passed returns the first location behind all objects in datagrams that the kernel may have sent.
func (t *ForwardedTrack) Passed() (passed moqt.Location) {
	if t == nil || !t.fast.enter() {
		return passed
	}
	defer t.fast.exit()
	keysOf(t.fast.kernel.tables.Objects, func(k *bpf.ObjectKey, _ *bpf.ObjectClaim) bool {
		if at := locationOf(k); k.Track == t.index && !at.Less(passed) {
			passed = at.Next()
		}
		return false
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if passed.Less(t.first) {
		return t.first // it is behind the claims that are forgotten
	}
	return passed
}

func locationOf(k *bpf.ObjectKey) moqt.Location {
	return moqt.Location{Group: k.Group, Object: k.Object}
}

// lastLocation is the last of all locations.
var lastLocation = moqt.Location{Group: math.MaxUint64, Object: math.MaxUint64}

// raise stops the kernel from sending objects up to and including at.
func (t *ForwardedTrack) raise(at moqt.Location) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := at.Next()
	if at == lastLocation || !t.first.Less(next) {
		return
	}
	t.first = next
	if t.applied == nil {
		return
	}
	parts := slices.Clone(t.applied)
	for i := range parts {
		parts[i].FirstGroup, parts[i].FirstObject = next.Group, next.Object
	}
	t.putLocked(parts)
}
