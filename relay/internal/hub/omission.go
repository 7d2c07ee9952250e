package hub

import (
	"context"
	"log/slog"
	"time"

	"sluice/media"
	"sluice/moqt"
	"sluice/track"
)

// Omission is what a subscriber does not get although the relay has it, or will have it: the objects of a subgroup from
// one on. The relay logs each omission, with the level debug, as the attribute "objects".
//
// If Why is [media.Severed], the subscriber may get objects within the sent bytes twice instead: the fast path may have
// sent some that the relay has never received.
type Omission struct {
	Peer            string // the subscriber's address
	Track           moqt.FullTrackName
	Group, Subgroup uint64
	From            uint64 // object
	Sent            int64  // bytes from the beginning of this object on
	Why             media.Outcome
	Received        time.Time // when the first object of the stream was, which tells lives of a publisher apart
}

// Unasked is what a relay does not fetch although it has missed it, because it would come too late. It is logged as an
// [Omission] is.
type Unasked struct {
	Track moqt.FullTrackName
	moqt.Range
}

// LogValue implements [slog.LogValuer].
func (u Unasked) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("track", u.Track), slog.Any("from", u.Start), slog.Any("to", u.End))
}

// LogValue implements [slog.LogValuer].
func (o Omission) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("track", o.Track), slog.Uint64("group", o.Group),
		slog.Uint64("subgroup", o.Subgroup), slog.Uint64("from", o.From), slog.Int64("sent", o.Sent))
}

// log completes an omission with its subscriber and the track, and logs it.
func (o Omission) log(what string, d *downstream) {
	o.Peer, o.Track = d.peer.Remote().String(), d.hub.name
	d.hub.directory.Log.Debug(what, "peer", o.Peer, "why", o.Why, "objects", o)
}

// leavesOut reports whether the drop policy or a timeout has ended a stream.
func leavesOut(why media.Outcome) bool {
	switch why {
	case media.Dropped, media.Late, media.ObjectTimedOut, media.SubgroupTimedOut, media.Unacknowledged:
		return true
	}
	return false
}

// refused is the omission of the objects of a segment from one on. The drop policy or a timeout has ended the stream of
// the subgroup, which may have begun with a later object, so these objects themselves have not timed out.
func refused(seg *track.Segment, from uint64) Omission {
	return Omission{Group: seg.Group, Subgroup: seg.Subgroup, From: from, Why: media.Dropped, Received: time.Now()}
}

// logOmission logs how a stream has ended, if it was by the drop policy or a timeout, or if it was severed. The stream
// was to begin with the first object. If the fast path had opened it, it began with the segment's.
func (v *delivery) logOmission(seg *track.Segment, first track.Object, res media.Result) {
	what, arrived := "objects are left out", res.Arrived
	switch {
	case res.Outcome == media.Severed:
		what = "objects may come twice"
		arrived = min(arrived, res.Severed)
	case res.Outcome == media.Canceled && res.Code == uint64(moqt.ResetCancelled) && v.streams.isFinishing():
	case !leavesOut(res.Outcome):
		return
	}
	if !v.sub.hub.directory.Log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	o := Omission{Group: seg.Group, Subgroup: seg.Subgroup, Why: res.Outcome, Received: first.Received}
	if arrived < first.Start {
		first = track.Object{ID: seg.First, Start: seg.Start}
	}
	from, start := firstAt(seg.Log, first, arrived)
	o.From, o.Sent = from, max(0, res.Sent-start)
	o.log(what, v.sub)
}

// firstAt returns the object that the byte at a log offset belongs to, and where it starts. It may be still to come, or
// an earlier one if the log does not have its objects any more.
func firstAt(log *track.Log, earlier track.Object, at int64) (id uint64, start int64) {
	o, ok := log.Covering(at)
	last, _ := log.Last()
	switch {
	case ok:
		return o.ID, o.Start
	case at < last.End:
		return earlier.ID, earlier.Start
	}
	return last.ID + 1, at
}
