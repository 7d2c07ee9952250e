package moqt

// SubgroupIDMode says where the Subgroup ID of a subgroup stream comes from (draft §11.4.2).
type SubgroupIDMode uint8

// Subgroup ID modes.
const (
	SubgroupIDZero        SubgroupIDMode = 0b00 // it is 0
	SubgroupIDFirstObject SubgroupIDMode = 0b01 // it is the Object ID of the first object on the stream
	SubgroupIDPresent     SubgroupIDMode = 0b10 // it is in the header
)

// Bits of the type of a SUBGROUP_HEADER (draft §11.4.2).
const (
	subgroupProperties      = 0x01
	subgroupIDModeShift     = 1
	subgroupIDModeMask      = 0x06
	subgroupEndOfGroup      = 0x08
	subgroupDefaultPriority = 0x20
	subgroupFirstObject     = 0x40
)

// MaxSubgroupHeaderLen is the longest SUBGROUP_HEADER, in bytes, whatever lengths the sender chose for its varints.
const MaxSubgroupHeaderLen = 4*MaxVarintLen + 1

// SubgroupHeader starts a stream with objects of one subgroup (draft §11.4.2).
type SubgroupHeader struct {
	TrackAlias      uint64
	GroupID         uint64
	SubgroupIDMode  SubgroupIDMode
	SubgroupID      uint64 // with SubgroupIDPresent
	DefaultPriority bool   // Priority is the one of the subscription and not in the header
	Priority        uint8  // Publisher Priority, unless DefaultPriority
	HasProperties   bool   // each object has a properties field
	EndOfGroup      bool   // if the stream ends with FIN, its last object is the last one of the group
	FirstObject     bool   // the first object on the stream is the first one ever published in the subgroup
}

// AppendSubgroupHeader appends h. SubgroupIDMode has to be one of the three modes.
func AppendSubgroupHeader(b []byte, v Version, h SubgroupHeader) []byte {
	b = AppendVarint(b, v.DataLayout().SubgroupType(h))
	b = AppendVarint(b, h.TrackAlias)
	b = AppendVarint(b, h.GroupID)
	if h.SubgroupIDMode == SubgroupIDPresent {
		b = AppendVarint(b, h.SubgroupID)
	}
	if !h.DefaultPriority {
		b = append(b, h.Priority)
	}
	return b
}

// flags returns the bits of the type that say what follows.
func (h SubgroupHeader) flags() uint64 {
	flags := uint64(h.SubgroupIDMode) << subgroupIDModeShift
	for _, flag := range [...]struct {
		set bool
		bit uint64
	}{
		{h.HasProperties, subgroupProperties},
		{h.EndOfGroup, subgroupEndOfGroup},
		{h.DefaultPriority, subgroupDefaultPriority},
		{h.FirstObject, subgroupFirstObject},
	} {
		if flag.set {
			flags |= flag.bit
		}
	}
	return flags
}

func (t *headerTypes) checkSubgroup(typ uint64) error {
	if !t.subgroup.contains(typ) || typ&subgroupIDModeMask == subgroupIDModeMask {
		return violation("invalid subgroup header type %#x", typ)
	}
	return nil
}

// ParseSubgroupHeader decodes the header at the start of b, type included, and returns its encoded length. It returns
// ErrIncomplete if b ends within the header.
func ParseSubgroupHeader(v Version, b []byte) (h SubgroupHeader, n int, err error) {
	f := fields{b: b}
	typ := f.varint()
	if f.err == nil {
		f.fail(v.DataLayout().types().checkSubgroup(typ))
	}
	h = SubgroupHeader{
		SubgroupIDMode:  SubgroupIDMode(typ & subgroupIDModeMask >> subgroupIDModeShift),
		DefaultPriority: typ&subgroupDefaultPriority != 0,
		HasProperties:   typ&subgroupProperties != 0,
		EndOfGroup:      typ&subgroupEndOfGroup != 0,
		FirstObject:     typ&subgroupFirstObject != 0,
		TrackAlias:      f.varint(),
		GroupID:         f.varint(),
	}
	if h.SubgroupIDMode == SubgroupIDPresent {
		h.SubgroupID = f.varint()
	}
	if !h.DefaultPriority {
		h.Priority = f.byte()
	}
	if f.err != nil {
		return SubgroupHeader{}, 0, f.err
	}
	return h, f.n, nil
}
