package moqt

// fields reads the fields of a data stream or datagram from bytes of which more may come. The first error sticks.
type fields struct {
	b    []byte
	n    int // consumed
	need int // after ErrIncomplete: how many bytes b has to have at least
	err  error
}

func (f *fields) fail(err error) {
	if f.err == nil && err != nil {
		f.err = err
	}
}

// take returns a view of the next n bytes, nil after an error.
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
		n = varintLenOf(f.b[f.n])
	}
	b := f.take(n)
	if b == nil {
		return 0
	}
	x, _, _ := ParseVarint(b)
	return x
}

// properties reads Properties Length and Properties (draft §11.2.1.2).
func (f *fields) properties() Properties {
	n := f.varint()
	if n > MaxObjectPropertiesLen {
		f.fail(ErrPropertiesTooLong)
	}
	if n == 0 || f.err != nil {
		return nil
	}
	return Properties(f.take(int(n)))
}
