package moqt

// objectScanner walks over the objects of a stream while its bytes come in. It skips payloads without looking at them
// and joins object headers that are spread over several reads.
type objectScanner struct {
	offset  int64  // of the next byte to consume, in the stream
	end     int64  // of the payload of the latest object, never before offset
	carry   []byte // the first bytes of a header that is not complete yet
	carried bool   // the latest header was parsed from carry, which may be reused at the next call
}

// headerParser parses an object header that starts at stream offset start. It returns ErrIncomplete, and how many
// bytes it needs at least, without having changed any state.
type headerParser interface {
	parseHeader(b []byte, start int64) (n, need int, end int64, err error)
}

// maxIdleCarry is how much memory a scanner keeps for the next header that is spread over reads, in bytes.
const maxIdleCarry = 512

// next consumes bytes of b until p has parsed a header, and returns how many.
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

// join adds bytes of b to carry, never more than belong to the header, until p has parsed it.
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

// carriedLen returns how many bytes were consumed beyond offset.
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
