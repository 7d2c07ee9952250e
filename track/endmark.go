package track

// EndMark is how a publisher says which object is the last of a group.
type EndMark struct {
	Subgroup uint64 // that has the last object
	Status   bool   // an object with status END_OF_GROUP follows that; else the header of the subgroup says so
}
