package track

import (
	"errors"
	"slices"
	"sort"
	"time"
	"unsafe"

	"sluice/moqt"
)

// Object is one object of a subgroup log. Offsets are log offsets; the object is complete once the log's End has
// reached End.
type Object struct {
	ID              uint64
	Start           int64 // of its Object ID Delta
	IDEnd           int64 // after its Object ID Delta: what follows is the same for all subscribers
	PropertiesStart int64 // of the Properties field's content; 0 if the object has none
	PropertiesLen   int   // in bytes
	PayloadStart    int64
	End             int64 // PayloadStart plus the Object Payload Length
	Status          moqt.ObjectStatus
	Received        time.Time // when its first bytes came, in whole microseconds
}

// PayloadLen returns the Object Payload Length in bytes.
func (o Object) PayloadLen() int64 { return o.End - o.PayloadStart }

// maxObjectHeader is the largest size in bytes of an object's fields before its payload that a log can index.
// Properties are small (draft §2.5); the limit keeps an index entry at 16 bytes.
const maxObjectHeader = 1<<17 - 1

// Errors of Log.AddObject.
var (
	ErrHeaderTooLarge = errors.New("object header is larger than a relay holds; send smaller object properties")
	errNotIndexable   = errors.New("object does not follow the previous object of its log")
)

// entry is an object relative to its block: the fields that differ from object to object, and none that follows from
// the next entry.
type entry struct {
	start    uint32
	id       uint32
	received uint32 // microseconds
	layout   uint32 // see layoutOf
}

const (
	entrySize    = int64(unsafe.Sizeof(entry{}))
	blockEntries = 1024
)

// block is a run of entries, and what they are relative to.
type block struct {
	start    int64
	id       uint64
	received int64 // microseconds since 1970
	entries  []entry
}

const blockSize = int64(unsafe.Sizeof(block{}))

// objectIndex finds the objects of a log by id and by offset. Ids and offsets only grow.
type objectIndex struct {
	blocks []block
	latest Object // added last, discarded or not
	count  int    // objects ever added
}

func (x *objectIndex) add(o Object, mem *Memory) error {
	if o.PayloadStart-o.Start > maxObjectHeader {
		return ErrHeaderTooLarge
	}
	if x.count > 0 && (o.ID <= x.latest.ID || o.Start != x.latest.End) {
		return errNotIndexable
	}
	o.IDEnd = max(o.IDEnd, o.Start)
	b := x.blockFor(o, mem)
	grown := -int64(cap(b.entries))
	b.entries = append(b.entries, entry{
		start:    uint32(o.Start - b.start),
		id:       uint32(o.ID - b.id),
		received: uint32(o.Received.UnixMicro() - b.received),
		layout:   layoutOf(o),
	})
	mem.add((grown + int64(cap(b.entries))) * entrySize)
	x.latest = o
	x.count++
	return nil
}

// statuses are the values of Object Status that two bits stand for.
var statuses = [...]moqt.ObjectStatus{moqt.StatusNormal, moqt.StatusEndOfGroup, moqt.StatusEndOfTrack}

// layoutOf packs the lengths of an object's fields and its status, from the high bits on: the length of all fields
// before the payload (17 bits), of the Object ID Delta (4), of the Properties Length (4; 0 if the object has no
// properties), of what follows the properties (5), and the status (2).
func layoutOf(o Object) uint32 {
	layout := uint32(o.PayloadStart-o.Start)<<15 | uint32(o.IDEnd-o.Start)<<11
	layout |= uint32(slices.Index(statuses[:], o.Status))
	if o.PropertiesLen > 0 {
		after := o.PayloadStart - o.PropertiesStart - int64(o.PropertiesLen)
		layout |= uint32(o.PropertiesStart-o.IDEnd)<<7 | uint32(after)<<2
	}
	return layout
}

// blockFor returns the block that o fits in: the last one, or a new one that starts with o.
func (x *objectIndex) blockFor(o Object, mem *Memory) *block {
	const wide = 1 << 32
	received := o.Received.UnixMicro()
	if n := len(x.blocks); n > 0 {
		b := &x.blocks[n-1]
		dt := received - b.received
		if len(b.entries) < blockEntries && o.Start-b.start < wide && o.ID-b.id < wide && dt >= 0 && dt < wide {
			return b
		}
	}
	grown := -cap(x.blocks)
	x.blocks = append(x.blocks, block{start: o.Start, id: o.ID, received: received})
	mem.add(int64(grown+cap(x.blocks)) * blockSize)
	return &x.blocks[len(x.blocks)-1]
}

// object returns the object at entry e of block b.
func (x *objectIndex) object(b, e int) Object {
	k := &x.blocks[b]
	n := k.entries[e]
	o := Object{
		ID:       k.id + uint64(n.id),
		Start:    k.start + int64(n.start),
		Status:   statuses[n.layout&3],
		Received: time.UnixMicro(k.received + int64(n.received)),
	}
	o.IDEnd = o.Start + int64(n.layout>>11&15)
	o.PayloadStart = o.Start + int64(n.layout>>15)
	if length := n.layout >> 7 & 15; length > 0 {
		o.PropertiesStart = o.IDEnd + int64(length)
		o.PropertiesLen = int(o.PayloadStart - o.PropertiesStart - int64(n.layout>>2&31))
	}
	switch {
	case e+1 < len(k.entries):
		o.End = k.start + int64(k.entries[e+1].start)
	case b+1 < len(x.blocks):
		o.End = x.blocks[b+1].start
	default:
		o.End = x.latest.End
	}
	return o
}

// seek returns the first object with an id of at least id.
func (x *objectIndex) seek(id uint64) (Object, bool) {
	b := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].id > id }) - 1
	if b < 0 {
		if len(x.blocks) == 0 {
			return Object{}, false
		}
		return x.object(0, 0), true
	}
	k := &x.blocks[b]
	e := sort.Search(len(k.entries), func(i int) bool { return k.id+uint64(k.entries[i].id) >= id })
	if e < len(k.entries) {
		return x.object(b, e), true
	}
	if b+1 < len(x.blocks) {
		return x.object(b+1, 0), true
	}
	return Object{}, false
}

// covering returns the object that the byte at offset off belongs to.
func (x *objectIndex) covering(off int64) (Object, bool) {
	b := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].start > off }) - 1
	if b < 0 || off >= x.latest.End {
		return Object{}, false
	}
	k := &x.blocks[b]
	e := sort.Search(len(k.entries), func(i int) bool { return k.start+int64(k.entries[i].start) > off }) - 1
	return x.object(b, e), true
}

// receivedSince returns the offset of the first object that was received at or after t, or of the last object if none
// was.
func (x *objectIndex) receivedSince(t time.Time) int64 {
	micros := t.UnixMicro()
	i := sort.Search(len(x.blocks), func(i int) bool {
		k := &x.blocks[i]
		return k.received+int64(k.entries[len(k.entries)-1].received) >= micros
	})
	if i == len(x.blocks) {
		return x.latest.Start
	}
	k := &x.blocks[i]
	e := sort.Search(len(k.entries), func(e int) bool { return k.received+int64(k.entries[e].received) >= micros })
	return k.start + int64(k.entries[e].start)
}

// discard forgets blocks whose objects all end before off. The others move: there are few.
func (x *objectIndex) discard(off int64, mem *Memory) {
	n := 0
	for n < len(x.blocks) && x.blockEnd(n) <= off {
		mem.add(-int64(cap(x.blocks[n].entries)) * entrySize)
		n++
	}
	if n < len(x.blocks) {
		x.blocks = slices.Delete(x.blocks, 0, n)
		return
	}
	mem.add(-int64(cap(x.blocks)) * blockSize)
	x.blocks = nil
}

func (x *objectIndex) blockEnd(b int) int64 {
	if b+1 < len(x.blocks) {
		return x.blocks[b+1].start
	}
	return x.latest.End
}
