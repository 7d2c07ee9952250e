package relay

import (
	"fmt"
	"slices"

	"sluice/moqt"
	"sluice/track"
)

// DefaultMaxFilterRanges is how many ranges the Range Filters of a request may have by default. Each costs time for
// each object.
const DefaultMaxFilterRanges = 64

// Limits of the different Range Filters that the subscriptions to a track have at a time: see addFilters. Each may cost
// a copy of the objects that pass.
const (
	maxFilters          = 32
	maxFiltersOfAddress = 8 // of the subscribers with one source address
)

// addFilters adds to list the Range Filters for which the relay may have to copy objects of a subscription, unless they
// are there. The end of the wanted range within a group counts among them: see delivery.filtersIn.
func addFilters(list []moqt.RangeFilters, filters moqt.RangeFilters, wanted moqt.Range) []moqt.RangeFilters {
	for _, f := range []moqt.RangeFilters{filters, filters.UpTo(wanted.End.Object)} {
		if len(f) > 0 && !slices.ContainsFunc(list, f.Equal) {
			list = append(list, f)
		}
	}
	return list
}

// checkRangeFilters refuses the Range Filters and the range of a peer's subscription, which is d or a new one, if the
// subscriptions to the track have too many different filters.
func (s *subscribers) checkRangeFilters(
	p *peer, d *downstream, filters moqt.RangeFilters, wanted moqt.Range,
) *moqt.RequestError {
	all := addFilters(nil, filters, wanted)
	if len(all) == 0 {
		return nil
	}
	own := slices.Clone(all)
	for o := range s.where(func(o *downstream) bool { return o != d && o.accepted }) {
		all = addFilters(all, o.delivery.filters, o.delivery.passing)
		if o.peer.address == p.address {
			own = addFilters(own, o.delivery.filters, o.delivery.passing)
		}
	}
	if len(all) <= maxFilters && len(own) <= maxFiltersOfAddress {
		return nil
	}
	refused := &moqt.RequestError{Code: moqt.RequestExcessiveLoad, Reason: fmt.Sprintf(
		"the subscriptions to the track have too many different range filters and ends within groups: at most %d, and "+
			"%d from one address",
		maxFilters, maxFiltersOfAddress,
	)}
	refused.SetRetry(quotaBurst)
	return refused
}

// setRangeFilters sets the Range Filters, and counts the subscription if the fast path does not serve it therefore.
func (v *delivery) setRangeFilters(filters moqt.RangeFilters) {
	if len(v.filters) == 0 && len(filters) > 0 {
		v.sub.hub.relay.metrics.unforwarded.WithLabelValues("range filters").Inc()
	}
	v.filters = filters
}

// updatedFilters returns the Range Filters after an update (draft-20 §5.1.4).
func (v *delivery) updatedFilters(p *moqt.Parameters) moqt.RangeFilters {
	all := moqt.Parameters{RangeFilters: v.filters}
	all.Merge(&moqt.Parameters{RangeFilters: p.RangeFilters})
	return all.RangeFilters
}

// filtersIn returns what the objects of a group have to pass besides wanted.Start. The end of the wanted range counts
// among the Range Filters: a stream that is being sent cannot end before its log.
func (v *delivery) filtersIn(group uint64) moqt.RangeFilters {
	if group == v.wanted.End.Group {
		return v.filters.UpTo(v.wanted.End.Object)
	}
	return v.filters
}

// formIn returns the form in which the subscriber gets the segments of a group.
func (v *delivery) formIn(group uint64) track.Form {
	return track.Form{Filters: v.filtersIn(group), Layout: v.layout}
}

// derived calls f with what the subscriber gets of a segment, if that is anything. What had to be copied for filters
// counts as received: else a peer could make the relay copy more than it may receive.
func (v *delivery) derived(seg *track.Segment, f func(*track.Segment)) {
	form := v.formIn(seg.Group)
	seg, copied, release := seg.Derive(form)
	if seg == nil {
		return
	}
	defer release()
	if len(form.Filters) > 0 {
		v.sub.peer.payers().download(int(copied))
	}
	f(seg)
}

// passes reports whether a datagram passes the Range Filters.
func (v *delivery) passes(o *track.Datagram) bool {
	return v.filters.Pass(&moqt.FilteredObject{
		Datagram: true, ID: o.ID, Priority: o.Priority, Properties: o.Properties,
	})
}

// forwardable returns the part of the wanted objects that the fast path may forward: it makes no derived logs, for
// Range Filters, the end of a range within a group, or another data layout. It reports false if there is none.
func (v *delivery) forwardable() (moqt.Range, bool) {
	r := v.wanted
	if r.End.Object < moqt.MaxLocation.Object {
		if r.End.Group == r.Start.Group {
			return r, false
		}
		r.End = moqt.Location{Group: r.End.Group - 1, Object: moqt.MaxLocation.Object}
	}
	return r, len(v.filters) == 0 && v.layout == moqt.DataLayout1
}
