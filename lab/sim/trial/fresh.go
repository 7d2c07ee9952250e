package trial

import "unsafe"

const (
	arena     = 64 << 20
	largest   = 32 << 10 // longer objects have pages of their own
	pageBytes = 8 << 10
)

// kept has the compiler put objects on the heap.
var kept struct {
	plain   []byte
	pointed []*byte
}

// FreshHeap has later objects lie where they lie in other runs of this program, if the collector is off and nothing
// else allocates meanwhile. Maps whose keys are pointers are in another order if addresses differ, and what a process
// allocates at its start depends a little on the speed of its threads. So all memory is used up to the next multiple of
// a large number: first whole pages, and then what is left in the spans of each size.
func FreshHeap() {
	begin := uintptr(0)
	past := func(p unsafe.Pointer) bool {
		if begin == 0 {
			begin = uintptr(p) / arena
		}
		return uintptr(p)/arena > begin
	}
	plain := func(size int) bool {
		kept.plain = make([]byte, size)
		return past(unsafe.Pointer(unsafe.SliceData(kept.plain)))
	}
	pointed := func(size int) bool {
		kept.pointed = make([]*byte, size/8)
		return past(unsafe.Pointer(unsafe.SliceData(kept.pointed)))
	}
	for !plain(pageBytes) {
	}
	for size := 8; size <= largest; size += max(8, size/8/8*8) {
		for !plain(size) {
		}
		for !pointed(size) {
		}
	}
	for !plain(1) { // tiny objects share blocks
	}
}
