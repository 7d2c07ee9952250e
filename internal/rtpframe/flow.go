package rtpframe

import (
	"sync/atomic"

	"sluice/claim"
	"sluice/clock"
)

// history is how many frames of a media, and decisions about them, are remembered. Packets may come in another order,
// and user space may be behind the kernel.
const history = 16

// lateHistories is how many times as long before them packets count as late. A timestamp from before that means that
// the publisher counts anew.
const lateHistories = 4

// Frames numbers the frames of a media, by their timestamps, in the order in which they come. Both senders may do that
// at once. Timestamps may go back: of B-frames, of a publisher whose clock is set, or of a clip that begins again. So a
// packet with another timestamp begins a frame, too, if its sequence number is newer than those with which others have.
type Frames struct {
	newest atomic.Uint64 // number << 32 | timestamp; 0: there was none
	latest [history]atomic.Uint64
	lead   atomic.Uint64 // leads | sequence number << 32 | timestamp, of the packet farthest ahead that began a frame

	// For the kernel, which does not look at frames before something may not go to a player of the media. Until then
	// user space alone numbers them.
	limited  atomic.Uint32
	temporal atomic.Uint32 // the highest temporal id
}

const leads = 1 << 48 // there is a lead

// Limit has the kernel look at frames from now on if something may not go to a player with that flow. That lasts: the
// decisions are needed after the limit has ended.
func (f *Frames) Limit(w *Flow) {
	if w.cost.Load() != 0 || uint32(w.decided.Load()) != 0 {
		f.limited.Store(1)
	}
}

// Raise tells the kernel the highest temporal id.
func (f *Frames) Raise(temporal uint32) {
	if f.temporal.Load() < temporal {
		f.temporal.Store(temporal)
	}
}

// Number returns the number of a packet's frame. A packet that is so late that its frame is forgotten counts as one of
// the oldest that is not.
func (f *Frames) Number(timestamp uint32, sequence uint16) uint32 {
	for {
		newest := f.newest.Load()
		number := uint32(newest >> 32)
		if newest != 0 && uint32(newest) == timestamp {
			return number
		}
		lead := f.lead.Load()
		ahead := lead == 0 || int16(sequence-uint16(lead>>32)) > 0
		if lead == 0 || !ahead || uint32(lead) == timestamp {
			if found, ok := f.find(newest, timestamp); ok {
				return found
			}
		}
		number++
		next := uint64(number)<<32 | uint64(timestamp)
		if f.newest.CompareAndSwap(newest, next) {
			f.latest[number%history].Store(next)
			if ahead {
				f.lead.CompareAndSwap(lead, leads|uint64(sequence)<<32|uint64(timestamp))
			}
			return number
		}
	}
}

// find returns the number of a frame that has begun before: of several with the timestamp, the newest.
func (f *Frames) find(newest uint64, timestamp uint32) (number uint32, ok bool) {
	last := uint32(newest >> 32)
	for i := range uint32(history) {
		if e := f.latest[(last-i)%history].Load(); e != 0 && uint32(e) == timestamp && last-uint32(e>>32) < history {
			return uint32(e >> 32), true
		}
	}
	return last - (history - 1), f.isLate(newest, timestamp)
}

// Restart says that the publisher's sequence numbers begin anew: the packets from now on are not late. The numbers of
// frames go on.
func (f *Frames) Restart() {
	for i := range f.latest {
		f.latest[i].Store(0)
	}
	f.lead.Store(0)
}

// isLate reports whether a timestamp is of a frame before the latest ones.
func (f *Frames) isLate(newest uint64, timestamp uint32) bool {
	number := uint32(newest>>32) - (history - 1)
	oldest := f.latest[number%history].Load()
	if oldest == 0 || uint32(oldest>>32) != number {
		return false
	}
	span, late := int32(uint32(newest)-uint32(oldest)), int32(uint32(oldest)-timestamp)
	return late > 0 && int64(late) <= int64(span)*lateHistories
}

// Follow goes on where other Frames are.
func (f *Frames) Follow(o *Frames) {
	for i := range f.latest {
		f.latest[i].Store(o.latest[i].Load())
	}
	f.lead.Store(o.lead.Load())
	f.newest.Store(o.newest.Load())
}

// Flow decides which frames of a media a player gets. Judge may be called on any goroutine, and by the kernel at once.
type Flow struct {
	// decided has the decisions about the latest frames: the number of the newest << 32 | broken | a bit for each, the
	// lowest one for the newest: it does not go.
	decided     atomic.Uint64
	full        claim.Word    // when the bucket is full
	cost, burst atomic.Uint32 // as in claim.ConnState
}

// broken: a frame that others depend on does not go, so nothing goes before the next key frame.
const broken = 1 << 31

// Question describes a frame that begins.
type Question struct {
	Kind Kind
	Size int // of its first packet
	Now  clock.Time
	Rule claim.Rule // nil: the built-in one
}

// Judge reports whether a packet of a frame goes. The first packet that shows the frame's kind decides about all of
// them.
func (f *Flow) Judge(number uint32, q Question) bool {
	for {
		before := f.decided.Load()
		newest := uint32(before >> 32)
		if age := newest - number; int32(age) >= 0 {
			return before>>min(age, history-1)&1 == 0 // of older ones it is forgotten
		}
		if q.Kind == Part { // it shares the fate of the frame before it
			return before&broken == 0
		}
		goes := f.asks(number, q, before&broken != 0)
		if f.decided.CompareAndSwap(before, decide(before, number, q.Kind, goes)) {
			return goes
		}
	}
}

func (f *Flow) asks(number uint32, q Question, isBroken bool) bool {
	if isBroken && (q.Kind == Delta || q.Kind == Disposable) {
		return false
	}
	if q.Rule == nil && f.cost.Load() == 0 {
		return true
	}
	s := f.conn()
	a := claim.Admission{Level: q.Kind.Level(), Now: q.Now}
	if q.Rule == nil {
		return s.Admit(a) == claim.Admitted
	}
	a.Size, a.Group = q.Size, uint64(number)
	return q.Rule.Admit(s, a) == claim.Admitted
}

// decide returns the word after a decision about a frame that is newer than those before.
func decide(before uint64, number uint32, k Kind, goes bool) uint64 {
	bits := before & (1<<history - 1) << min(number-uint32(before>>32), history) & (1<<history - 1)
	if !goes {
		bits |= 1
	}
	isBroken := before & broken
	if k == Key || k == Delta {
		isBroken = (bits & 1) * broken
	}
	return uint64(number)<<32 | isBroken | bits
}

// noWindow is more than is ever in flight.
const noWindow = 1 << 60

// conn returns the flow as the connection that rules are asked about. RTP has no window, so nothing is in flight.
func (f *Flow) conn() *claim.ConnState {
	s := new(claim.ConnState)
	s.Threshold.Store(lowest)
	s.Window.Store(noWindow)
	s.Bounds.Store(bounds)
	s.BucketCost.Store(f.cost.Load())
	s.BucketBurst.Store(f.burst.Load())
	s.BucketAt.Store(f.full.Load())
	return s
}

// SetBucket changes the bucket, and when it is full. Decisions of others stay.
func (f *Flow) SetBucket(b claim.Bucket, full clock.Time) {
	s := new(claim.ConnState)
	s.SetBucket(b)
	f.full.Store(uint64(full))
	f.burst.Store(s.BucketBurst.Load())
	f.cost.Store(s.BucketCost.Load())
}

// SetRate changes the rate of the bucket, in bytes a second; 0: there is none. Bytes taken from it stay taken. The
// bucket takes a second to get full: a key frame, and some frames that depend on it, have to fit in.
func (f *Flow) SetRate(rate int64) {
	f.SetBucket(claim.Bucket{Rate: rate, Burst: rate}, clock.Time(f.full.Load()))
}

// Charge takes a packet from the bucket.
func (f *Flow) Charge(n int, now clock.Time) {
	claim.Take(&f.full, f.cost.Load(), f.burst.Load(), n, now)
}

// Copy takes over another flow's state.
func (f *Flow) Copy(o *Flow) {
	f.full.Store(o.full.Load())
	f.burst.Store(o.burst.Load())
	f.cost.Store(o.cost.Load())
	f.decided.Store(o.decided.Load())
}

// Mend has frames go again that depend on one that was left out.
func (f *Flow) Mend() { f.decided.And(^uint64(broken)) }

// Forget forgets the decisions.
func (f *Flow) Forget() { f.decided.Store(0) }
