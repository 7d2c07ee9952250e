package moqt

// StreamKind says what a unidirectional stream carries (draft §3.4).
type StreamKind uint8

// Stream kinds.
const (
	StreamControl  StreamKind = iota + 1 // SETUP and other control messages
	StreamSubgroup                       // SUBGROUP_HEADER and objects
	StreamFetch                          // FETCH_HEADER and objects
	StreamPadding                        // to be discarded
)

// ParseStreamKind returns what a unidirectional stream carries, given its first bytes. It consumes nothing: the type is
// part of the header. It returns ErrIncomplete if b ends within the type, and a ProtocolError if the type is unknown or
// invalid (the draft names no code for unknown types).
func ParseStreamKind(v Version, b []byte) (StreamKind, error) {
	typ, _, err := v.wire().varint().parse(b)
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

// fields reads the fields of a data stream or datagram. Unlike a decoder it distinguishes bytes that are malformed from
// bytes that have not arrived yet. The first error sticks.
type fields struct {
	varints varintFormat
	b       []byte
	n       int // consumed
	need    int // after ErrIncomplete: the least length of b with which the field is complete
	err     error
}

func (f *fields) fail(err error) {
	if f.err == nil && err != nil {
		f.err = err
	}
}

// take returns a view of the next n bytes, or nil after an error.
func (f *fields) take(n int) []byte {
	if f.err != nil {
		return nil
	}
	if len(f.b)-f.n < n {
		f.need, f.err = f.n+n, ErrIncomplete
		return nil
	}
	f.n += n
	return f.b[f.n-n : f.n : f.n]
}

func (f *fields) byte() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) varint() uint64 {
	if f.err != nil {
		return 0
	}
	n := 1
	if f.n < len(f.b) {
		if first := f.b[f.n]; first < 0x40 { // in all formats the number itself
			f.n++
			return uint64(first)
		}
		n = f.varints.lenOf(f.b[f.n])
	}
	b := f.take(n)
	if b == nil {
		return 0
	}
	x, _, _ := f.varints.parse(b)
	return x
}

// properties reads Properties Length and Properties (draft §11.2.1.2), and returns how long they are in b.
func (f *fields) properties() (p Properties, length int) {
	n := f.varint()
	if n > MaxObjectPropertiesLen {
		f.fail(ErrPropertiesTooLong)
	}
	if n == 0 || f.err != nil {
		return nil, 0
	}
	b := f.take(int(n))
	if f.err != nil || f.varints == vi64 {
		return b, len(b)
	}
	p, err := convertProperties(b, f.varints, vi64)
	if err == ErrIncomplete {
		err = malformed("object properties end within a key-value-pair")
	}
	f.fail(err)
	if len(p) > MaxObjectPropertiesLen {
		f.fail(ErrPropertiesTooLong)
	}
	return p, len(b)
}

// objectScanner walks over the objects of a stream while its bytes arrive. It skips payloads, and joins object headers
// that are spread over several reads.
type objectScanner struct {
	offset  int64  // of the next byte to consume, in the stream
	end     int64  // of the payload of the latest object; never less than offset
	carry   []byte // the first bytes of a header that is not complete yet
	carried bool   // the latest header was parsed from carry, which may be reused at the next call
}

// headerParser parses an object header that starts at stream offset start. It returns the length of the header and
// where the payload ends. If b is too short, it changes no state and returns ErrIncomplete and the least length of b
// with which the next field is complete.
type headerParser interface {
	parseHeader(b []byte, start int64) (n, need int, end int64, err error)
}

// maxIdleCarry is how much memory a scanner keeps for the next header that is spread over reads, in bytes.
const maxIdleCarry = 512

// next consumes bytes of b until p has parsed a header, and returns the number of consumed bytes.
func (s *objectScanner) next(b []byte, p headerParser) (n int, err error) {
	if s.carried {
		s.release()
	}
	n = int(min(s.end-s.offset, int64(len(b)))) // payload to skip
	s.offset += int64(n)
	if n == len(b) {
		return n, ErrIncomplete
	}
	if len(s.carry) > 0 {
		m, err := s.join(b[n:], p)
		return n + m, err
	}
	used, _, end, err := p.parseHeader(b[n:], s.offset)
	switch err {
	case nil:
		s.offset, s.end = s.offset+int64(used), end
	case ErrIncomplete:
		s.carry = append(s.carry, b[n:]...)
		return len(b), err
	}
	return n + used, err
}

// join moves bytes of b to carry until p has parsed the header. It never takes bytes that follow the header.
func (s *objectScanner) join(b []byte, p headerParser) (n int, err error) {
	for {
		used, need, end, err := p.parseHeader(s.carry, s.offset)
		switch err {
		case nil:
			s.offset, s.end, s.carried = s.offset+int64(used), end, true
			return n, nil
		case ErrIncomplete:
		default:
			return n, err
		}
		m := min(need-len(s.carry), len(b)-n)
		if m == 0 {
			return n, ErrIncomplete
		}
		s.carry = append(s.carry, b[n:n+m]...)
		n += m
	}
}

func (s *objectScanner) release() {
	s.carried = false
	if cap(s.carry) > maxIdleCarry {
		s.carry = nil
	}
	s.carry = s.carry[:0]
}

// carriedLen returns the number of bytes that were consumed beyond offset.
func (s *objectScanner) carriedLen() int64 {
	if s.carried {
		return 0
	}
	return int64(len(s.carry))
}

// finish returns the ProtocolError for a stream that ends with FIN within an object (draft §11.4).
func (s *objectScanner) finish() error {
	if s.offset < s.end || s.carriedLen() > 0 {
		return violation("stream ends within an object")
	}
	return nil
}
