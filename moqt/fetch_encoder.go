package moqt

import "fmt"

// FetchEncoder encodes the objects and markers of one FETCH response, each in the shortest way.
type FetchEncoder struct {
	order GroupOrder
	prior fetchState
}

// NewFetchEncoder returns an encoder for what follows the FETCH_HEADER; order is the Group Order of the FETCH.
func NewFetchEncoder(order GroupOrder) FetchEncoder { return FetchEncoder{order: order} }

// AppendObject appends all that precedes the payload of o, or a marker. Groups have to come in the order of the FETCH
// and objects in ascending order within their group; what does not is refused, and b returned as it was.
func (e *FetchEncoder) AppendObject(b []byte, o *FetchObject) ([]byte, error) {
	if err := e.check(o); err != nil {
		return b, err
	}
	if o.Kind == FetchKindObject {
		b = e.appendObject(b, o)
	} else {
		flags := uint64(fetchNonExistentRange)
		if o.Kind == FetchKindUnknown {
			flags = fetchUnknownRange
		}
		b = appendLocation(AppendVarint(b, flags), o.Location)
	}
	e.prior.advance(o)
	return b, nil
}

func (e *FetchEncoder) check(o *FetchObject) error {
	if len(o.Properties) > MaxObjectPropertiesLen {
		return ErrPropertiesTooLong
	}
	if !e.prior.hasLocation {
		return nil
	}
	prior, inOrder := e.prior.location, false
	switch {
	case o.Location.Group == prior.Group:
		inOrder = o.Location.Object > prior.Object
	case e.order == Descending:
		inOrder = o.Location.Group < prior.Group
	default:
		inOrder = o.Location.Group > prior.Group
	}
	if !inOrder {
		return fmt.Errorf("object %s after %s in a response with %s groups", o.Location, prior, e.order)
	}
	return nil
}

func (e *FetchEncoder) appendObject(b []byte, o *FetchObject) []byte {
	flags := e.flags(o)
	b = AppendVarint(b, flags)
	if flags&fetchGroupID != 0 {
		b = AppendVarint(b, e.groupDelta(o.Location.Group))
	}
	if flags&fetchSubgroupMask == fetchSubgroupPresent {
		b = AppendVarint(b, o.SubgroupID)
	}
	if flags&fetchObjectID != 0 {
		id := o.Location.Object
		if flags&fetchGroupID == 0 {
			id -= e.prior.location.Object
		}
		b = AppendVarint(b, id)
	}
	if flags&fetchPriority != 0 {
		b = append(b, o.Priority)
	}
	if flags&fetchProperties != 0 {
		b = appendProperties(b, o.Properties)
	}
	return AppendVarint(b, o.PayloadLength)
}

// flags chooses the fields that o needs, given the prior object.
func (e *FetchEncoder) flags(o *FetchObject) uint64 {
	flags := e.subgroupFlags(o)
	if !e.prior.hasLocation || o.Location.Group != e.prior.location.Group {
		flags |= fetchGroupID
	}
	// After the largest Object ID, 0 is one more only by wrapping around.
	if id := o.Location.Object; !e.prior.hasLocation || id == 0 || id-1 != e.prior.location.Object {
		flags |= fetchObjectID
	}
	if !e.prior.hasObject || o.Priority != e.prior.priority {
		flags |= fetchPriority
	}
	if len(o.Properties) > 0 {
		flags |= fetchProperties
	}
	return flags
}

func (e *FetchEncoder) subgroupFlags(o *FetchObject) uint64 {
	switch {
	case o.Datagram:
		return fetchDatagram
	case o.SubgroupID == 0:
		return fetchSubgroupZero
	case e.prior.hasSubgroup && o.SubgroupID == e.prior.subgroup:
		return fetchSubgroupPrior
	case e.prior.hasSubgroup && o.SubgroupID-1 == e.prior.subgroup:
		return fetchSubgroupPriorInc
	}
	return fetchSubgroupPresent
}

// groupDelta returns the Group ID Delta of a group that is not the prior one (draft §11.4.4.1).
func (e *FetchEncoder) groupDelta(group uint64) uint64 {
	switch {
	case !e.prior.hasLocation:
		return group
	case e.order == Descending:
		return e.prior.location.Group - group - 1
	default:
		return group - e.prior.location.Group - 1
	}
}
