package relay

import (
	"fmt"
	"slices"

	"sluice/moqt"
	"sluice/relay/internal/charge"
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
		all = addFilters(all, o.delivery.selection.filters, o.delivery.selection.passing)
		if o.peer.address == p.address {
			own = addFilters(own, o.delivery.selection.filters, o.delivery.selection.passing)
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
	refused.SetRetry(charge.Burst)
	return refused
}
