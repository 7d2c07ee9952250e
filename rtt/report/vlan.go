package report

import (
	"cmp"
	"strconv"
)

// VLAN is the IDs of the VLAN tags of packets: 0 if there is none. With two tags (QinQ, IEEE 802.1ad), the outermost is
// the provider's, and the inner one the customer's.
type VLAN struct {
	ID, Inner uint16
}

// String returns both IDs, such as 100.7, or the only one.
func (v VLAN) String() string {
	text := strconv.Itoa(int(v.ID))
	if v.Inner != 0 {
		text += "." + strconv.Itoa(int(v.Inner))
	}
	return text
}

// Compare orders VLANs by the outermost ID first.
func (v VLAN) Compare(o VLAN) int {
	return cmp.Or(cmp.Compare(v.ID, o.ID), cmp.Compare(v.Inner, o.Inner))
}
