package hub

import (
	"sluice/moqt"
	"sluice/track"
)

// selection is what a subscriber gets of a track. All methods expect Hub.mu to be held.
type selection struct {
	filter  *moqt.Filter
	passing moqt.Range // the objects that pass the filter
	served  moqt.Range // the objects for which the relay has chosen this rendition
	filters moqt.RangeFilters
	layout  moqt.DataLayout
	whole   bool // the current group is sent from its start, though the filter excludes it
}

func newSelection(filter *moqt.Filter, layout moqt.DataLayout) selection {
	return selection{filter: filter, passing: moqt.Everything, served: moqt.Everything, layout: layout}
}

func (s *selection) setFilter(f *moqt.Filter, largest *moqt.Location) {
	s.filter, s.passing, s.whole = f, f.Range(largest), false
}

// startOver forgets where the subscriber's objects begin: the publisher was restarted, maybe with smaller ids.
func (s *selection) startOver() {
	s.setFilter(s.filter, nil)
	if s.served.End == moqt.Everything.End {
		s.served = moqt.Everything
	}
}

// wanted is the objects that are sent, as far as Range Filters let them pass.
func (s *selection) wanted() moqt.Range { return s.passing.Intersect(s.served) }

func (s *selection) hasGroup(group uint64) bool {
	wanted := s.wanted()
	return group >= wanted.Start.Group && group <= wanted.End.Group
}

// hasBacklog reports whether the current group is sent from its start. Subscriptions without a filter pass all objects
// (draft §5.1.2), and many publishers send the current group to a new subscriber: after another subscriber, it would
// otherwise never get an object that is published once, such as a catalog.
func (s *selection) hasBacklog() bool {
	f := s.filter
	return f == nil || s.whole || f.Type == moqt.FilterAbsoluteStart && f.Start == moqt.Location{}
}

// hasDatagram reports whether an object passes.
func (s *selection) hasDatagram(o *track.Datagram) bool {
	return s.wanted().Contains(moqt.Location{Group: o.Group, Object: o.ID}) && s.filters.Pass(&moqt.FilteredObject{
		Datagram: true, ID: o.ID, Priority: o.Priority, Properties: o.Properties,
	})
}

// updatedFilters returns the Range Filters after an update (draft-20 §5.1.4).
func (s *selection) updatedFilters(p *moqt.Parameters) moqt.RangeFilters {
	all := moqt.Parameters{RangeFilters: s.filters}
	all.Merge(&moqt.Parameters{RangeFilters: p.RangeFilters})
	return all.RangeFilters
}

// formIn returns the form in which the subscriber gets the segments of a group. The end of the wanted range counts
// among the Range Filters: a stream that is being sent cannot end before its log.
func (s *selection) formIn(group uint64) track.Form {
	filters := s.filters
	if end := s.wanted().End; group == end.Group {
		filters = filters.UpTo(end.Object)
	}
	return track.Form{Filters: filters, Layout: s.layout}
}

// forwardable returns the part of the wanted objects that the fast path may forward: it makes no derived logs, for
// Range Filters, the end of a range within a group, or another data layout. It reports false if there is none.
func (s *selection) forwardable() (moqt.Range, bool) {
	r := s.wanted()
	if r.End.Object < moqt.MaxLocation.Object {
		if r.End.Group == r.Start.Group {
			return r, false
		}
		r.End = moqt.Location{Group: r.End.Group - 1, Object: moqt.MaxLocation.Object}
	}
	return r, len(s.filters) == 0 && s.layout == moqt.DataLayout1
}
