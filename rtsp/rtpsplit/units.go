package rtpsplit

import "encoding/binary"

// units is how a format carries NAL units: RFC 6184 §5 or RFC 7798 §4.4.
type units struct {
	header              int // bytes of the header of a unit, and of a payload
	shift               int // of the type in the first byte
	mask                byte
	aggregate, fragment byte // types of payloads; those below aggregate are units
}

var (
	h264 = units{header: 1, mask: 0x1f, aggregate: 24, fragment: 28}
	h265 = units{header: 2, shift: 1, mask: 0x3f, aggregate: 48, fragment: 49}
)

// Bits of the header of a fragment.
const (
	fragmentBegins = 0x80
	fragmentEnds   = 0x40
)

func (u *units) typeOf(b []byte) byte { return b[0] >> u.shift & u.mask }

func (u *units) split(b []byte, room int) []piece {
	if len(b) <= u.header+1 {
		return nil
	}
	switch t := u.typeOf(b); {
	case t < u.aggregate:
		return u.fragments(b[:u.header], t|fragmentBegins|fragmentEnds, b[u.header:], room)
	case t == u.aggregate:
		return u.groups(b, room)
	case t == u.fragment:
		return u.fragments(b[:u.header], b[u.header], b[u.header+1:], room)
	}
	return nil
}

// fragments returns the fragments of a unit, or of a fragment of one. The head is the same for either payload, and the
// kind says whether it begins and ends the unit.
func (u *units) fragments(head []byte, kind byte, body []byte, room int) (pieces []piece) {
	for begins := true; len(body) > 0; begins = false {
		n := min(len(body), room-u.header-1)
		one := append(make([]byte, 0, u.header+1+n), head...)
		one[0] = one[0]&^(u.mask<<u.shift) | u.fragment<<u.shift
		k := kind
		if !begins {
			k &^= fragmentBegins
		}
		if n < len(body) {
			k &^= fragmentEnds
		}
		pieces = append(pieces, piece{payload: append(append(one, k), body[:n]...)})
		body = body[n:]
	}
	return pieces
}

// groups returns the units of an aggregate in several ones, as many in each as there is room for.
func (u *units) groups(b []byte, room int) (pieces []piece) {
	head := b[:u.header]
	group := head
	flush := func() {
		switch size := len(group) - len(head) - 2; {
		case size < 0:
			return // it is empty
		case int(binary.BigEndian.Uint16(group[len(head):])) != size:
			pieces = append(pieces, piece{payload: group})
		default: // one unit needs no aggregate
			unit := group[len(head)+2:]
			if len(unit) > room {
				pieces = append(pieces, u.split(unit, room)...)
			} else {
				pieces = append(pieces, piece{payload: unit})
			}
		}
		group = head
	}
	for rest := b[u.header:]; len(rest) > 0; {
		if len(rest) < 2 {
			return nil
		}
		size := int(binary.BigEndian.Uint16(rest)) + 2
		if size <= u.header+2 || size > len(rest) || u.typeOf(rest[2:]) >= u.aggregate {
			return nil
		}
		if len(group)+size > room {
			flush()
		}
		group = append(group[:len(group):len(group)], rest[:size]...)
		rest = rest[size:]
	}
	flush()
	return pieces
}
