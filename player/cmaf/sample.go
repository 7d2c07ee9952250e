package cmaf

// Sample is one frame of a chunk. Times are in ticks of its track.
type Sample struct {
	DecodeTime uint64
	Offset     int32 // presentation time minus decode time
	Duration   uint32
	Sync       bool
	Data       []byte
}
