package moqt

// StreamKind is what a unidirectional stream carries (draft §3.4).
type StreamKind uint8

// Stream kinds.
const (
	StreamControl  StreamKind = iota + 1 // SETUP and other control messages
	StreamSubgroup                       // SUBGROUP_HEADER and objects
	StreamFetch                          // FETCH_HEADER and objects
	StreamPadding                        // to be discarded
)

// ParseStreamKind tells from the first bytes of a unidirectional stream what it carries. Nothing is consumed: the type
// belongs to the header that follows. It returns ErrIncomplete if b ends within the type, and a ProtocolError if the
// type is unknown or invalid (the draft names no code for unknown ones).
func ParseStreamKind(v Version, b []byte) (StreamKind, error) {
	typ, _, err := ParseVarint(b)
	if err != nil {
		return 0, err
	}
	data := v.DataLayout().types()
	switch s := &v.wire().streams; {
	case data.subgroup.contains(typ):
		return StreamSubgroup, data.checkSubgroup(typ)
	case typ == s.fetch:
		return StreamFetch, nil
	case typ == s.setup:
		return StreamControl, nil
	case typ == s.padding:
		return StreamPadding, nil
	}
	return 0, violation("unknown stream type %#x", typ)
}

// AppendPaddingStreamType appends the start of a padding stream; any number of zero bytes follow (draft §11.5.1).
func AppendPaddingStreamType(b []byte, v Version) []byte {
	return AppendVarint(b, v.wire().streams.padding)
}
