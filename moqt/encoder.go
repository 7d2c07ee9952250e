package moqt

import "fmt"

// encoder writes the fields of a control message. The first error sticks.
type encoder struct {
	wire *wire
	b    []byte
	err  error
}

// fail records err, if it is the first one.
func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) varint(x uint64)     { e.b = AppendVarint(e.b, x) }
func (e *encoder) byte(x byte)         { e.b = append(e.b, x) }
func (e *encoder) location(l Location) { e.b = appendLocation(e.b, l) }
func (e *encoder) properties(p Properties) {
	e.fail(p.CheckTrack())
	e.b = append(e.b, p...)
}

// lengthPrefixed writes the length of s and s.
func (e *encoder) lengthPrefixed(s string, limit int, what string) {
	if len(s) > limit {
		e.fail(fmt.Errorf("%s of %d bytes, at most %d are allowed", what, len(s), limit))
	}
	e.varint(uint64(len(s)))
	e.b = append(e.b, s...)
}
