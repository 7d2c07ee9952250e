package track

// EndMark is how a publisher says which object is the last of a group.
type EndMark struct {
	Subgroup uint64 // that has the last object
	Status   bool   // an object with status END_OF_GROUP follows that; else the header of the subgroup says so
}

// EndMarkOf returns how the publisher of a track has marked the end of a group, the last one that it has marked in a
// subgroup. It returns nil if there is none.
func EndMarkOf(t *Track) *EndMark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.index.endMark
}
