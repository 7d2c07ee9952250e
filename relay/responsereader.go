package relay

import (
	"errors"

	"sluice/moqt"
)

// responseReader parses a FETCH response as it arrives.
type responseReader struct {
	parser *moqt.FetchParser
	left   uint64 // payload bytes to come of the current object
}

// responseTaker takes what a responseReader finds.
type responseTaker interface {
	takeItem(*moqt.FetchObject) error // an object without its payload, or a marker
	takePayload([]byte) error
}

// sourceError is an error in a publisher's response.
type sourceError struct{ error }

// read hands over the bytes in b. It returns errors of the taker as they are, and a sourceError if the response is
// wrong.
func (r *responseReader) read(b []byte, to responseTaker) error {
	for len(b) > 0 {
		if r.left > 0 {
			n := int(min(r.left, uint64(len(b))))
			if _, _, err := r.parser.Next(b[:n]); err != nil && !errors.Is(err, moqt.ErrIncomplete) {
				return sourceError{err}
			}
			r.left -= uint64(n)
			if err := to.takePayload(b[:n]); err != nil {
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
			return sourceError{err}
		}
		b = b[n:]
		if err := to.takeItem(&item.FetchObject); err != nil {
			return err
		}
		r.left = item.PayloadLength
	}
	return nil
}
