package fetch

import (
	"errors"

	"sluice/moqt"
)

// Reader parses a FETCH response as it arrives.
type Reader struct {
	parser *moqt.FetchParser
	left   uint64 // payload bytes to come of the current object
}

// NewReader returns a reader of a response in an order, of a publisher that speaks a version.
func NewReader(v moqt.Version, order moqt.GroupOrder) Reader {
	return Reader{parser: moqt.NewFetchParser(v, order, 0)}
}

// IsWithin reports whether a part of the payload of an object is still to come.
func (r *Reader) IsWithin() bool { return r.left > 0 }

// Taker takes what a Reader finds.
type Taker interface {
	TakeItem(*moqt.FetchObject) error // an object without its payload, or a marker
	TakePayload([]byte) error
}

// SourceError is an error in a publisher's response.
type SourceError struct{ Err error }

// Error implements error.
func (e SourceError) Error() string { return e.Err.Error() }

// Read hands over the bytes in b. It returns errors of the taker as they are, and a SourceError if the response is
// wrong.
func (r *Reader) Read(b []byte, to Taker) error {
	for len(b) > 0 {
		if r.left > 0 {
			n := int(min(r.left, uint64(len(b))))
			if _, _, err := r.parser.Next(b[:n]); err != nil && !errors.Is(err, moqt.ErrIncomplete) {
				return SourceError{err}
			}
			r.left -= uint64(n)
			if err := to.TakePayload(b[:n]); err != nil {
				return err
			}
			b = b[n:]
			continue
		}
		item, n, err := r.parser.Next(b)
		if errors.Is(err, moqt.ErrIncomplete) {
			return nil
		}
		if err != nil {
			return SourceError{err}
		}
		b = b[n:]
		if err := to.TakeItem(&item.FetchObject); err != nil {
			return err
		}
		r.left = item.PayloadLength
	}
	return nil
}
