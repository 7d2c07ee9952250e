package moqt

// MaxFetchHeaderLen is the longest FETCH_HEADER, in bytes.
const MaxFetchHeaderLen = 2 * MaxVarintLen

// FetchHeader starts the stream with the objects of a FETCH (draft §11.4.4).
type FetchHeader struct {
	RequestID uint64 // of the FETCH
}

// AppendFetchHeader appends h.
func AppendFetchHeader(b []byte, v Version, h FetchHeader) []byte {
	return AppendVarint(AppendVarint(b, v.wire().streams.fetch), h.RequestID)
}

// ParseFetchHeader decodes the header at the start of b, type included, and returns its encoded length. It returns
// ErrIncomplete if b ends within the header.
func ParseFetchHeader(v Version, b []byte) (h FetchHeader, n int, err error) {
	f := fields{b: b}
	if typ := f.varint(); typ != v.wire().streams.fetch {
		f.fail(violation("stream type %#x is not FETCH_HEADER", typ))
	}
	h.RequestID = f.varint()
	if f.err != nil {
		return FetchHeader{}, 0, f.err
	}
	return h, f.n, nil
}
