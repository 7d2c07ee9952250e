package moqt

import "fmt"

// DataLayout identifies the layout of the headers that precede media: SUBGROUP_HEADER and OBJECT_DATAGRAM. Versions
// whose headers have the same bytes share a layout. A program that reads and writes these headers by itself asks for
// the layout of a session's version, and leaves sessions alone whose layout it does not know.
type DataLayout uint8

// DataLayout1 is the layout of draft-18: vi64 fields, and types whose bits say which fields follow.
const DataLayout1 DataLayout = 1

// String names the layout.
func (l DataLayout) String() string { return fmt.Sprintf("data layout %d", uint8(l)) }

// headerTypes are the types of the headers of one layout.
type headerTypes struct {
	subgroup, datagram typeFamily
}

// typeFamily is a set of types whose bits say what fields follow.
type typeFamily struct {
	fixed uint64 // bits that are always set
	flags uint64 // bits that may be set
}

func (f typeFamily) contains(typ uint64) bool { return typ&^f.flags == f.fixed }

var dataLayout1 = headerTypes{
	subgroup: typeFamily{fixed: 0x10, flags: 0x6f},
	datagram: typeFamily{flags: 0x2f},
}

// types returns the types of l, which has to be the layout of a version.
func (l DataLayout) types() *headerTypes {
	if l == DataLayout1 {
		return &dataLayout1
	}
	panic("moqt: unknown " + l.String())
}

// SubgroupType returns the type of a SUBGROUP_HEADER with the fields and flags of h.
func (l DataLayout) SubgroupType(h SubgroupHeader) uint64 {
	return l.types().subgroup.fixed | h.flags()
}
