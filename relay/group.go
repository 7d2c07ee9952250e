package relay

// groupRequest is a NEW_GROUP_REQUEST that was sent upstream (draft §10.2.13).
type groupRequest struct {
	value   uint64
	largest uint64 // the Largest Group then, plus 1; 0 if there was none
}

// requestGroup passes a subscriber's NEW_GROUP_REQUEST on, unless that is of no use; mu is held.
func (h *hub) requestGroup(value *uint64) {
	if value == nil {
		return
	}
	largest := uint64(0)
	if l := h.data.Largest(); l != nil {
		largest = l.Group + 1
	}
	established, _ := h.established()
	outstanding := h.group != nil && h.group.largest == largest && h.group.value >= *value
	switch {
	case established && !h.properties.DynamicGroups():
	case *value != 0 && *value < largest: // there is such a group: it is not above the Largest Group
	case outstanding:
	default:
		h.group = &groupRequest{*value, largest}
		for _, u := range h.up {
			u.wake()
		}
	}
}
