package cmaf

import "encoding/binary"

// Fields of a trun box that MakeChunk states for each sample, and flags of samples (ISO/IEC 14496-12 §8.8.3.1).
const (
	madeFields    = trunDataOffset | trunDuration | trunSize | trunFlags | trunComposite
	syncSample    = 0x02000000 // depends on no other one
	nonSyncSample = 0x01010000
)

// MakeChunk returns a chunk with these samples, at least one. It needs no defaults of an init segment.
func MakeChunk(track, sequence uint32, samples []Sample) []byte {
	be := binary.BigEndian
	var media []byte
	rows := be.AppendUint32(nil, uint32(len(samples)))
	rows = be.AppendUint32(rows, 0) // the data offset, see below
	for _, s := range samples {
		flags := uint32(nonSyncSample)
		if s.Sync {
			flags = syncSample
		}
		rows = be.AppendUint32(rows, s.Duration)
		rows = be.AppendUint32(rows, uint32(len(s.Data)))
		rows = be.AppendUint32(rows, flags)
		rows = be.AppendUint32(rows, uint32(s.Offset))
		media = append(media, s.Data...)
	}
	moof := func(offset int) []byte {
		be.PutUint32(rows[4:], uint32(offset))
		return makeBox("moof",
			makeBox("mfhd", be.AppendUint32(make([]byte, 4), sequence)),
			makeBox("traf",
				makeBox("tfhd", be.AppendUint32(be.AppendUint32(nil, tfhdBaseIsMoof), track)),
				makeBox("tfdt", be.AppendUint64([]byte{1, 0, 0, 0}, samples[0].DecodeTime)),
				makeBox("trun", be.AppendUint32(nil, 1<<24|madeFields), rows)))
	}
	return append(moof(len(moof(0))+8), makeBox("mdat", media)...)
}
