package fastpath

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/fastpath/bpf"
	"sluice/moqt"
)

const (
	objectDone         = uint64(bpf.IngressObjectLayoutOBJECT_DONE)
	objectVersionShift = bpf.IngressObjectLayoutVERSION_SHIFT
	objectVersionMask  = 1<<31 - 1
	objectSentToAll    = 1<<objectVersionShift - 1
	// objectFor is how long the claim of an object is known: longer than its packet takes from the kernel to this
	// process. After that its track's first location keeps the kernel from sending it again.
	objectFor = 10 * time.Second
)

// offered is a list of subscribers that the kernel has had, and perhaps still has.
type offered struct {
	version     uint32
	subscribers []Subscriber
	until       time.Time // zero: it still has
}

// ClaimObject claims an object that came in a datagram: from now on the kernel sends it to nobody. It returns those to
// whom the kernel has sent it already.
func (t *Track) ClaimObject(at moqt.Location) (sent []Subscriber) {
	if t == nil || !t.fast.enter() {
		return nil
	}
	defer t.fast.exit()
	if t.fast.track(t.index) != t {
		return nil // closed
	}
	objects := t.fast.kernel.ingress.Objects
	key := bpf.ObjectKey{Group: at.Group, Object: at.Object, Track: t.index}
	err := objects.Update(key, bpf.ObjectClaim{State: objectDone, Claimed: monotonic()}, ebpf.UpdateNoExist)
	if err == nil {
		return nil
	}
	if !errors.Is(err, ebpf.ErrKeyExist) { // the map is full
		t.mu.Lock()
		t.raise(at)
		t.mu.Unlock()
	}
	state, ok := t.awaitDone(key)
	if !ok {
		return nil
	}
	return t.sentTo(state)
}

// awaitDone waits until the kernel, on another CPU, is through with an object, which it has if it claimed the packet
// that this process got it from. Should that take too long, nobody gets the object twice.
func (t *Track) awaitDone(key bpf.ObjectKey) (state uint64, ok bool) {
	var claim bpf.ObjectClaim
	for deadline := time.Now().Add(openingTimeout); ; runtime.Gosched() {
		if t.fast.kernel.ingress.Objects.Lookup(key, &claim) != nil {
			return 0, false
		}
		if claim.State&objectDone != 0 {
			return claim.State, true
		}
		if time.Now().After(deadline) {
			return claim.State | objectSentToAll, true
		}
	}
}

// sentTo decodes the state of a claim.
func (t *Track) sentTo(state uint64) (sent []Subscriber) {
	t.mu.Lock()
	defer t.mu.Unlock()
	version := uint32(state>>objectVersionShift) & objectVersionMask
	for _, o := range t.offered {
		if o.version != version {
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

// offer notes what list of subscribers the kernel is about to get, and returns its version; mu is held.
func (t *Track) offer(subscribers []Subscriber) uint32 {
	now := time.Now()
	t.offered = slices.DeleteFunc(t.offered, func(o offered) bool { return !o.until.IsZero() && now.Sub(o.until) > objectFor })
	if n := len(t.offered); n > 0 {
		t.offered[n-1].until = now
	}
	t.version = t.version%objectVersionMask + 1
	t.offered = append(t.offered, offered{version: t.version, subscribers: subscribers})
	return t.version
}

// lastLocation is the only one that no location follows.
var lastLocation = moqt.Location{Group: math.MaxUint64, Object: math.MaxUint64}

// raise keeps the kernel from sending objects up to and including at any more; mu is held.
func (t *Track) raise(at moqt.Location) {
	next := moqt.Location{Group: at.Group, Object: at.Object + 1}
	if at.Object == math.MaxUint64 {
		next = moqt.Location{Group: at.Group + 1}
	}
	if at == lastLocation || !t.first.Less(next) {
		return
	}
	t.first = next
	if t.from != nil {
		t.applied.FirstGroup, t.applied.FirstObject = next.Group, next.Object
		t.fast.report("update a track", t.fast.kernel.ingress.Tracks.Put(t.index, t.applied))
	}
}

// forgetObjects removes the claims made before a time.
func (r *reclaimer) forgetObjects(before uint64) {
	f, objects := r.fast, r.fast.kernel.ingress.Objects
	old := keysOf(objects, func(k *bpf.ObjectKey, o *bpf.ObjectClaim) bool {
		return o.Claimed < before && (moqt.Location{Group: k.Group, Object: k.Object} != lastLocation)
	})
	last := make(map[uint32]moqt.Location)
	for _, k := range old {
		if at := (moqt.Location{Group: k.Group, Object: k.Object}); !at.Less(last[k.Track]) {
			last[k.Track] = at
		}
	}
	for index, at := range last {
		if t := f.track(index); t != nil {
			t.mu.Lock()
			t.raise(at)
			t.mu.Unlock()
		}
	}
	for _, k := range old {
		f.report("forget an object", objects.Delete(k))
	}
}

// freeTracks frees closed tracks whose subgroups and objects the kernel forwards no more.
func (r *reclaimer) freeTracks() {
	r.mu.Lock()
	closed := r.tracks
	r.tracks = nil
	r.mu.Unlock()
	if len(closed) == 0 {
		return
	}
	awaitGracePeriod()
	f, maps := r.fast, &r.fast.kernel.ingress
	for _, k := range keysOf(maps.Objects, func(k *bpf.ObjectKey, _ *bpf.ObjectClaim) bool { return slices.Contains(closed, k.Track) }) {
		f.report("forget an object", maps.Objects.Delete(k))
	}
	busy := make(map[uint32]bool)
	keysOf(maps.Subgroups, func(_ *bpf.StreamKey, g *bpf.Subgroup) bool {
		if g.Ended == 0 {
			busy[g.Track] = true
		}
		return false
	})
	for _, index := range closed {
		if busy[index] {
			r.freeTrack(index)
		} else {
			f.freeTrack(index)
		}
	}
}

// monotonic is the time as the kernel's programs read it.
func monotonic() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail
	return uint64(ts.Nano())
}
