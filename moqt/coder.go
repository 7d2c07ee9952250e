package moqt

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// coder writes a control message, or reads one that has arrived completely. Each message, and each part of one, has a
// single method that does both and reads like the format in the draft. The first error sticks; fields behind it are not
// read.
type coder struct {
	wire   *wire
	writes bool
	b      []byte // written so far, or still to be read; empty after an error
	err    error

	ref           Reference
	oldParameters bool // are read as before draft 17: see Reader
}

// fail records err, if it is the first one.
func (c *coder) fail(err error) {
	if err == nil || c.err != nil {
		return
	}
	if c.err = err; !c.writes {
		c.b = nil
	}
}

// check fails if err, the result of validating a value, is not nil. A peer that has sent such a value has violated the
// protocol.
func (c *coder) check(err error) {
	if !c.writes {
		err = breach(err)
	}
	c.fail(err)
}

func (c *coder) varint(x *uint64) {
	f := c.wire.varint()
	if c.writes {
		c.fail(f.check(*x))
		c.b = f.append(c.b, *x)
		return
	}
	value, n, err := f.parse(c.b)
	if err != nil {
		c.truncated()
		n = 0
	}
	*x, c.b = value, c.b[n:]
}

func (c *coder) varints(all ...*uint64) {
	for _, x := range all {
		c.varint(x)
	}
}

// numbers are up to the end, or up to a limit that ends the message.
func (c *coder) numbers(list *[]uint64, most int) {
	for i := range *list {
		c.varint(&(*list)[i])
	}
	for !c.writes && len(c.b) > 0 && len(*list) < most {
		var x uint64
		c.varint(&x)
		*list = append(*list, x)
	}
}

func (c *coder) truncated() { c.fail(violation("payload ends within a field")) }

func (c *coder) byte(x *byte) {
	if c.writes {
		c.b = append(c.b, *x)
	} else if b := c.take(1); b != nil {
		*x = b[0]
	}
}

// take returns a view of the next n bytes that are read, or nil if there are fewer.
func (c *coder) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.truncated()
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

// bytes is a field behind its length. A reader returns a view. A length above limit is an error, whether or not the
// bytes are there.
func (c *coder) bytes(b []byte, limit int, what string) []byte {
	n := uint64(len(b))
	if !c.writes {
		c.varint(&n)
	}
	if n > uint64(limit) {
		c.check(fmt.Errorf("%s of %d bytes, at most %d are allowed", what, n, limit))
	}
	if !c.writes {
		return c.take(n)
	}
	c.varint(&n)
	c.b = append(c.b, b...)
	return b
}

// rest is a field without a length, up to the end. A reader returns a copy.
func (c *coder) rest(b *[]byte) {
	if c.writes {
		c.b = append(c.b, *b...)
		return
	}
	*b, c.b = slices.Clone(c.b), nil
}

// text is like bytes, for a string.
func (c *coder) text(s *string, limit int, what string) {
	if b := c.bytes([]byte(*s), limit, what); !c.writes {
		*s = string(b)
	}
}

// prefixed is a structure that is preceded by its length, and fills it.
func (c *coder) prefixed(limit int, what string, fields func(*coder)) {
	inner := coder{wire: c.wire, writes: c.writes}
	if c.writes {
		fields(&inner)
		c.fail(inner.err)
		c.bytes(inner.b, limit, what)
		return
	}
	if inner.b = c.bytes(nil, limit, what); c.err == nil {
		c.within(&inner, what, fields)
	}
}

// within reads a structure that has to fill the bytes of inner.
func (c *coder) within(inner *coder, what string, fields func(*coder)) {
	fields(inner)
	if len(inner.b) > 0 {
		inner.fail(violation("%d bytes after the end of the %s", len(inner.b), what))
	}
	c.fail(inner.err)
}

func (c *coder) bool(v *bool, what string) {
	b := bit(*v)
	if c.byte(&b); b > 1 {
		c.fail(violation("%s is %d, neither 0 nor 1", what, b))
	}
	if !c.writes {
		*v = b == 1
	}
}

func bit(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

// reason is a Reason Phrase. A longer text is truncated between two characters: an incomplete reason is better than no
// message.
func (c *coder) reason(reason *string) {
	if s := *reason; len(s) > MaxReasonLen {
		s = s[:MaxReasonLen]
		for len(s) > 0 {
			if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n > 1 {
				break
			}
			s = s[:len(s)-1]
		}
		*reason = s
	}
	c.text(reason, MaxReasonLen, "reason phrase")
}

// pairs writes Key-Value-Pairs.
func (c *coder) pairs(all []KeyValuePair) {
	b, err := c.wire.varint().appendPairs(c.b, all)
	c.b = b
	c.fail(err)
}

// request is the Request ID of the request that the message belongs to, if the version has one.
func (c *coder) request() {
	if c.wire.references {
		c.varint(&c.ref.RequestID)
	}
}

// newRequest is the Request ID of a message that is a request itself.
func (c *coder) newRequest(id *uint64) {
	c.varint(id)
	c.ref.RequestID = *id
}

// properties are the Track Properties, which are the rest of the message.
func (c *coder) properties(p *Properties) {
	f := c.wire.varint()
	if c.writes {
		c.fail(p.CheckTrack())
		sent := *p
		if f != vi64 {
			sent = sent.withoutZeroTimeout()
		}
		b, err := f.properties(sent)
		c.fail(err)
		c.b = append(c.b, b...)
		return
	}
	if len(c.b) == 0 {
		return
	}
	c.rest((*[]byte)(p))
	if f != vi64 {
		var err error
		if *p, err = convertProperties(*p, f, vi64); err == ErrIncomplete {
			err = violation("track properties end within a key-value-pair")
		}
		c.fail(err)
		c.fail(p.checkTimeouts())
	}
	c.fail(p.CheckTrack())
}
