package moqt

import (
	"io"
	"sync"
)

// translations holds buffers for translated bytes. A stream has one only from the time when its bytes have arrived
// until these are read. So idle streams cost nothing, and a peer may have many.
var translations = sync.Pool{New: func() any { return new([]byte) }}

// subgroupTranslator reads a subgroup stream of one layout and returns its bytes in another one.
type subgroupTranslator struct {
	stream  io.Reader
	parser  *SubgroupParser
	encoder SubgroupEncoder
	payload uint64  // bytes of the present object's that are still to come
	buffer  *[]byte // of translations; nil while out is empty
	out     []byte  // translated, not read yet
	err     error   // after out
}

// TranslateSubgroup returns a reader of the bytes after header h on a stream of layout from, in layout to. Read returns
// the errors of the stream, the errors of SubgroupParser, and another error if layout to cannot express an object.
func TranslateSubgroup(stream io.Reader, from, to DataLayout, h SubgroupHeader) io.Reader {
	return &subgroupTranslator{
		stream: stream, parser: NewSubgroupParser(from, h, 0), encoder: NewSubgroupEncoder(to, h),
	}
}

// Read implements io.Reader. Bytes that it reads from the stream are in p until they are translated.
func (t *subgroupTranslator) Read(p []byte) (int, error) {
	for len(t.out) == 0 && t.err == nil {
		n, err := t.stream.Read(p)
		t.err = t.translate(p[:n])
		if t.err == nil && err == io.EOF {
			t.err = t.parser.Finish()
		}
		if t.err == nil {
			t.err = err
		}
	}
	n := copy(p, t.out)
	t.out = t.out[n:]
	t.release()
	if len(t.out) > 0 || n > 0 && t.err == nil {
		return n, nil
	}
	return n, t.err
}

// release gives the buffer back if all of it has been read.
func (t *subgroupTranslator) release() {
	if len(t.out) == 0 && t.buffer != nil {
		translations.Put(t.buffer)
		t.buffer, t.out = nil, nil
	}
}

// translate translates b, the next bytes of the stream, to out, which is empty.
func (t *subgroupTranslator) translate(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	t.buffer = translations.Get().(*[]byte)
	t.out = (*t.buffer)[:0]
	defer func() {
		*t.buffer = t.out // it may have grown
		t.release()
	}()
	for len(b) > 0 {
		if t.payload > 0 {
			payload := b[:min(t.payload, uint64(len(b)))]
			if _, _, err := t.parser.Next(payload); err != ErrIncomplete { // it skips the payload
				return err
			}
			t.out = append(t.out, payload...)
			t.payload -= uint64(len(payload))
			b = b[len(payload):]
			continue
		}
		o, n, err := t.parser.Next(b)
		if err == ErrIncomplete {
			return nil
		}
		if err == nil {
			t.out, err = t.encoder.AppendObject(t.out, o.ObjectHeader)
		}
		if err != nil {
			return err
		}
		t.payload = o.PayloadLength
		b = b[n:]
	}
	return nil
}
