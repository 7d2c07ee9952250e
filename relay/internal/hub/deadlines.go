package hub

import (
	"time"

	"sluice/media"
	"sluice/moqt"
	"sluice/track"
)

// deadlines are the delivery timeouts that a subscriber and the publisher want (draft §8).
type deadlines struct {
	subscriber moqt.Parameters
	publisher  moqt.Properties
}

// ofTrack are the timeouts in force.
func (d *deadlines) ofTrack() media.Timeouts {
	return d.with(d.publisher.ObjectDeliveryTimeout(), d.publisher.SubgroupDeliveryTimeout())
}

// of are the timeouts of a segment whose subgroup has some of its own, or nil.
func (d *deadlines) of(seg *track.Segment) *media.Timeouts {
	if seg.ObjectTimeout == nil && seg.SubgroupTimeout == nil {
		return nil
	}
	object, subgroup := d.publisher.ObjectDeliveryTimeout(), d.publisher.SubgroupDeliveryTimeout()
	if seg.ObjectTimeout != nil {
		object = *seg.ObjectTimeout
	}
	if seg.SubgroupTimeout != nil {
		subgroup = *seg.SubgroupTimeout
	}
	return new(d.with(object, subgroup))
}

// with combines the timeouts of the subscriber and others. An object that must not be served any more because of
// MAX_CACHE_DURATION (draft §12.3) has timed out, too.
func (d *deadlines) with(object, subgroup uint64) (t media.Timeouts) {
	t.Object = shorter(d.subscriber.ObjectDeliveryTimeout, object)
	t.Subgroup = shorter(d.subscriber.SubgroupDeliveryTimeout, subgroup)
	if ms, ok := d.publisher.MaxCacheDuration(); ok {
		t.Object = shorter(&ms, uint64(t.Object/time.Millisecond))
	}
	return t
}

// shorter combines what the subscriber and the publisher want, in milliseconds; 0 is no timeout.
func shorter(subscriber *uint64, publisher uint64) time.Duration {
	if subscriber == nil || *subscriber == 0 || publisher != 0 && publisher < *subscriber {
		return moqt.Milliseconds(publisher)
	}
	return moqt.Milliseconds(*subscriber)
}
