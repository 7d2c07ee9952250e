package moqt

import (
	"cmp"
	"fmt"
	"math"
)

// Location identifies an object within a track (draft §1.4.2).
type Location struct {
	Group, Object uint64
}

// MaxLocation is the largest Location.
var MaxLocation = Location{math.MaxUint64, math.MaxUint64}

// Compare orders locations by group, then object: negative if l < m, zero if equal, positive if l > m.
func (l Location) Compare(m Location) int {
	return cmp.Or(cmp.Compare(l.Group, m.Group), cmp.Compare(l.Object, m.Object))
}

// Less reports whether l comes before m.
func (l Location) Less(m Location) bool { return l.Compare(m) < 0 }

// Next returns the Location after l; that of MaxLocation is MaxLocation itself.
func (l Location) Next() Location {
	switch {
	case l.Object < math.MaxUint64:
		return Location{l.Group, l.Object + 1}
	case l.Group < math.MaxUint64:
		return Location{l.Group + 1, 0}
	default:
		return l
	}
}

// String returns "{group, object}", the notation of the draft.
func (l Location) String() string { return fmt.Sprintf("{%d, %d}", l.Group, l.Object) }

// appendLocation appends l as two varints.
func appendLocation(b []byte, l Location) []byte {
	return AppendVarint(AppendVarint(b, l.Group), l.Object)
}
