package moqt

// FetchKind tells the objects of a FETCH response from the markers between them (draft §11.4.4).
type FetchKind uint8

// Fetch kinds. The ranges reach from after the previous object or marker to the Location of the marker, which is
// included.
const (
	FetchKindObject      FetchKind = iota // an object
	FetchKindNonExistent                  // End of Non-Existent Range: the objects of the range do not exist
	FetchKindUnknown                      // End of Unknown Range: it is not known whether they exist
)

// FetchObject is an object in a FETCH response, without its payload, or a marker.
type FetchObject struct {
	Kind     FetchKind
	Location Location

	// Objects only.
	Datagram      bool   // Object Forwarding Preference: Datagram, and there is no Subgroup ID
	SubgroupID    uint64 // unless Datagram
	Priority      uint8  // Publisher Priority
	Properties    Properties
	PayloadLength uint64 // bytes
}

// Serialization Flags (draft §11.4.4.1, §11.4.4.2).
const (
	fetchSubgroupMask     = 0x03
	fetchSubgroupZero     = 0x00
	fetchSubgroupPrior    = 0x01
	fetchSubgroupPriorInc = 0x02
	fetchSubgroupPresent  = 0x03
	fetchObjectID         = 0x04
	fetchGroupID          = 0x08
	fetchPriority         = 0x10
	fetchProperties       = 0x20
	fetchDatagram         = 0x40
	maxFetchFlags         = 0x7f
	fetchNonExistentRange = 0x8c
	fetchUnknownRange     = 0x10c
)

// fetchState is what flags refer to as the "prior Object".
type fetchState struct {
	hasLocation bool
	location    Location // of the latest object or marker
	hasObject   bool
	priority    uint8 // of the latest object
	hasSubgroup bool  // the latest object was not a datagram
	subgroup    uint64
}

// advance makes o the prior object. Markers change the location only (draft §11.4.4.2).
func (s *fetchState) advance(o *FetchObject) {
	s.hasLocation, s.location = true, o.Location
	if o.Kind != FetchKindObject {
		return
	}
	s.hasObject, s.priority = true, o.Priority
	s.hasSubgroup, s.subgroup = !o.Datagram, o.SubgroupID
}
