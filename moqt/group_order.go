package moqt

import "fmt"

// GroupOrder is the order in which groups are sent (draft §7.1, §10.2.8).
type GroupOrder uint8

// Group orders.
const (
	Ascending  GroupOrder = 0x1 // lower Group IDs first
	Descending GroupOrder = 0x2 // higher Group IDs first
)

// String names the order.
func (o GroupOrder) String() string {
	switch o {
	case Ascending:
		return "ascending"
	case Descending:
		return "descending"
	}
	return fmt.Sprintf("group order %#x", uint8(o))
}

func (o GroupOrder) validate() error {
	if o != Ascending && o != Descending {
		return fmt.Errorf("group order is %d, neither 1 nor 2", uint8(o))
	}
	return nil
}
