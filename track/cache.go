package track

import (
	"container/list"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of CacheConfig.
const (
	DefaultCacheDuration = 30 * time.Second
	DefaultCacheSize     = 256 << 20
)

// dedupWindow is how long the track remembers which objects of a group came after it has released their bytes, so that
// objects of a late second publisher are not forwarded again.
const dedupWindow = 30 * time.Second

// evictionStep is the part of the size that is freed at once when the cache is full: the smaller a step, the more often
// all groups are looked at.
const evictionStep = 16

// CacheConfig limits a Cache. The zero value is the default.
type CacheConfig struct {
	// Duration is how long objects are kept after the last one of their group came. 0: DefaultCacheDuration; negative:
	// not at all.
	Duration time.Duration
	// Size is how many bytes all tracks together may hold. 0: DefaultCacheSize; negative: unlimited. Readers, and
	// streams in arrival, keep what they need beyond it: see Cache.Over.
	Size int64
	// Grace is how long a segment that was cut waits for another stream of its subgroup. 0: not at all.
	Grace time.Duration
	// Now is the clock. nil: time.Now.
	Now func() time.Time
}

// Cache keeps the objects of all tracks within limits. It evicts whole groups, the oldest first, and never while they
// are read or written.
type Cache struct {
	duration time.Duration
	size     int64
	grace    time.Duration
	now      func() time.Time
	mem      Memory
	trigger  atomic.Int64 // enforce acts when there are more bytes
	trims    atomic.Int64 // see Trims

	mu     sync.Mutex
	groups list.List // in order of creation
	cuts   []*merge  // whose segments may wait for a stream to go on

	sweeping sync.Mutex
	// scratch is guarded by sweeping. It is empty between two uses: a group that it kept would keep the track, and with
	// it the publisher's connection.
	scratch []*group
}

// NewCache returns an empty cache.
func NewCache(cfg CacheConfig) *Cache {
	c := &Cache{duration: cfg.Duration, size: cfg.Size, grace: cfg.Grace, now: cfg.Now}
	if c.duration == 0 {
		c.duration = DefaultCacheDuration
	}
	switch {
	case c.size == 0:
		c.size = DefaultCacheSize
	case c.size < 0:
		c.size = math.MaxInt64
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.trigger.Store(c.size)
	return c
}

// NewTrack adds a track. opened is called for each segment that comes on a subscription, when its first object's header
// is known and before any of its bytes are visible, on the goroutine that reads the publisher's stream. It must not
// block nor call a Source. It may be nil.
func (c *Cache) NewTrack(opened func(*Segment)) *Track {
	if opened == nil {
		opened = func(*Segment) {}
	}
	return newTrack(c, opened)
}

// Bytes returns the memory held by all tracks: logs, objects and indexes.
func (c *Cache) Bytes() int64 { return c.mem.Bytes() }

// Groups returns how many groups are indexed.
func (c *Cache) Groups() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.groups.Len()
}

// Trims returns how many times a track forgot its lowest entries, because it had reached a limit on numbers.
func (c *Cache) Trims() int64 { return c.trims.Load() }

// Over returns by how many bytes the cache exceeds its size, because readers and writers keep them from being evicted.
func (c *Cache) Over() int64 {
	return max(0, c.Bytes()-c.size)
}

// Sweep evicts groups that are too old, and groups beyond the size. It should be called several times a second.
func (c *Cache) Sweep() {
	c.sweeping.Lock()
	defer c.sweeping.Unlock()
	now := c.now()
	c.giveUpCuts(now)
	for _, g := range c.snapshotLocked() {
		for _, sub := range g.track.sweep(g, now) {
			sub.merge.checkStalled(now)
		}
	}
	clear(c.scratch)
	c.evictLocked()
}

// watchCut adds the merge of a segment that was cut.
func (c *Cache) watchCut(m *merge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts = append(c.cuts, m)
}

// giveUpCuts resets the segments that have been cut for too long.
func (c *Cache) giveUpCuts(now time.Time) {
	c.mu.Lock()
	cuts := c.cuts
	c.cuts = nil
	c.mu.Unlock()
	cuts = slices.DeleteFunc(cuts, func(m *merge) bool { return !m.giveUp(now) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts = append(c.cuts, cuts...)
}

// enforce evicts if the cache has become too large.
func (c *Cache) enforce() {
	if c.Bytes() > c.trigger.Load() && c.sweeping.TryLock() {
		c.evictLocked()
		c.sweeping.Unlock()
	}
}

// evictLocked evicts if the cache is too large. Each time it makes some room, because it looks at all groups: so many
// bytes come before the next time, also if nothing can be evicted. sweeping is held.
func (c *Cache) evictLocked() {
	c.trigger.Store(c.size)
	if c.Over() == 0 {
		return
	}
	room := c.size / evictionStep
	c.freeLocked(c.size - room)
	c.trigger.Store(max(c.size, c.Bytes()+room))
}

// freeLocked frees memory until only the target is left: first whole groups, then the bytes of streams that wait, the
// objects of groups being written that no reader needs, the knowledge about evicted groups, and finally most of the
// knowledge about the other groups. sweeping is held.
func (c *Cache) freeLocked(target int64) {
	groups := c.snapshotLocked()
	defer clear(groups)
	for _, free := range []func(*group){
		locked((*group).evictUnpinned),
		(*group).dropAhead,
		locked((*group).discardUnread),
		locked((*group).forgetEvicted),
		locked((*group).settleMost),
	} {
		for _, g := range groups {
			if c.Bytes() <= target {
				return
			}
			free(g)
		}
	}
}

// locked returns f, called with Track.mu held.
func locked(f func(*group)) func(*group) {
	return func(g *group) {
		g.track.mu.Lock()
		defer g.track.mu.Unlock()
		f(g)
	}
}

// snapshotLocked returns the groups in order of creation. The caller clears them after use; sweeping is held.
func (c *Cache) snapshotLocked() []*group {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scratch = c.scratch[:0]
	for e := c.groups.Front(); e != nil; e = e.Next() {
		c.scratch = append(c.scratch, e.Value.(*group))
	}
	return c.scratch
}

// remember adds a group.
func (c *Cache) remember(g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.listed = c.groups.PushBack(g)
}

// forget removes a group; its track's mu is held.
func (c *Cache) forget(g *group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.listed == nil {
		return
	}
	c.groups.Remove(g.listed)
	g.listed = nil
	c.mem.add(-g.counted)
}
