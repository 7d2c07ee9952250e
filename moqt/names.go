package moqt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of draft §2.4.1.
const (
	// MaxNamespaceFields is the largest number of fields in a Track Namespace.
	MaxNamespaceFields = 32
	// MaxFullTrackNameLen is the largest sum of the lengths of all namespace fields and the track name, in bytes.
	MaxFullTrackNameLen = 4096
)

// Namespace is a Track Namespace, a prefix of one, or the suffix that is left after a prefix: 0 to 32 fields of
// arbitrary bytes, none of them empty (draft §2.4.1).
type Namespace []string

// Len returns the length of ns as the draft counts it: the sum of the lengths of its fields, in bytes.
func (ns Namespace) Len() (n int) {
	for _, field := range ns {
		n += len(field)
	}
	return n
}

// Validate returns an error if ns exceeds the limits of draft §2.4.1 or has an empty field.
func (ns Namespace) Validate() error {
	if len(ns) > MaxNamespaceFields {
		return fmt.Errorf("track namespace of %d fields, at most %d are allowed", len(ns), MaxNamespaceFields)
	}
	if slices.Contains(ns, "") {
		return errors.New("empty track namespace field")
	}
	if n := ns.Len(); n > MaxFullTrackNameLen {
		return fmt.Errorf("track namespace of %d bytes, at most %d are allowed", n, MaxFullTrackNameLen)
	}
	return nil
}

// Equal reports whether ns and o have the same fields.
func (ns Namespace) Equal(o Namespace) bool { return slices.Equal(ns, o) }

// HasPrefix reports whether ns starts with all fields of prefix (Namespace Prefix Matching, draft §9.5).
func (ns Namespace) HasPrefix(prefix Namespace) bool {
	return len(ns) >= len(prefix) && slices.Equal(ns[:len(prefix)], prefix)
}

// Overlaps reports whether one of ns and o is a prefix of the other, which PREFIX_OVERLAP forbids (draft §10.18,
// §10.19).
func (ns Namespace) Overlaps(o Namespace) bool { return ns.HasPrefix(o) || o.HasPrefix(ns) }

// Join returns a new namespace: the fields of ns, then the fields of suffix.
func (ns Namespace) Join(suffix Namespace) Namespace { return slices.Concat(ns, suffix) }

// IsReserved reports whether the first field begins with a period, which is for registered names (draft §3.2.1).
func (ns Namespace) IsReserved() bool { return len(ns) > 0 && strings.HasPrefix(ns[0], ".") }

// IsForbidden reports whether the first field is a single period: requests for such a namespace are answered with
// DOES_NOT_EXIST (draft §3.2.1).
func (ns Namespace) IsForbidden() bool { return len(ns) > 0 && ns[0] == "." }

// IsSession reports whether the first field is ".session", which no endpoint forwards (draft §3.2.2).
func (ns Namespace) IsSession() bool { return len(ns) > 0 && ns[0] == ".session" }

// Key returns an unambiguous map key for ns.
func (ns Namespace) Key() string { return FullTrackName{Namespace: ns}.Key() }

// appendNamespace appends the Track Namespace structure (draft §2.4.1). ns has to be valid.
func appendNamespace(b []byte, ns Namespace) []byte {
	b = AppendVarint(b, uint64(len(ns)))
	for _, field := range ns {
		b = AppendVarint(b, uint64(len(field)))
		b = append(b, field...)
	}
	return b
}

// fields is a Track Namespace structure; each MUST of draft §2.4.1 is a PROTOCOL_VIOLATION.
func (ns *Namespace) fields(c *coder) {
	if c.writes {
		c.fail(ns.Validate())
		c.b = appendNamespace(c.b, *ns)
		return
	}
	var n uint64
	if c.varint(&n); n > MaxNamespaceFields {
		c.fail(violation("track namespace of %d fields, at most %d are allowed", n, MaxNamespaceFields))
		return
	}
	*ns = make(Namespace, n)
	for i := range *ns {
		c.text(&(*ns)[i], MaxFullTrackNameLen, "track namespace field")
	}
	c.check(ns.Validate())
}

// FullTrackName identifies a track within a scope (draft §2.4.1).
type FullTrackName struct {
	Namespace Namespace
	Name      string // arbitrary bytes, may be empty
}

// Validate returns an error if the name exceeds the limits of draft §2.4.1.
func (t FullTrackName) Validate() error {
	if err := t.Namespace.Validate(); err != nil {
		return err
	}
	if n := t.Namespace.Len() + len(t.Name); n > MaxFullTrackNameLen {
		return fmt.Errorf("full track name of %d bytes, at most %d are allowed", n, MaxFullTrackNameLen)
	}
	return nil
}

// Equal reports whether t and o name the same track.
func (t FullTrackName) Equal(o FullTrackName) bool {
	return t.Name == o.Name && t.Namespace.Equal(o.Namespace)
}

// Key returns an unambiguous map key for t.
func (t FullTrackName) Key() string {
	const lenLen = 2 // the longest encoding of the number of fields, and of the length of a field
	b := make([]byte, 0, lenLen*(1+len(t.Namespace))+t.Namespace.Len()+len(t.Name))
	return string(append(appendNamespace(b, t.Namespace), t.Name...))
}

// fields are the fields Track Namespace, Track Name Length and Track Name.
func (t *FullTrackName) fields(c *coder) {
	t.Namespace.fields(c)
	c.text(&t.Name, MaxFullTrackNameLen, "track name")
	c.check(t.Validate())
}

const hexDigits = "0123456789abcdef"

// String returns the text form of draft §1.5: the fields joined by "-", with bytes other than letters, digits and
// "_" written as a period and two hexadecimal digits. It is unambiguous and safe in URLs and file names.
func (ns Namespace) String() string {
	var b strings.Builder
	for i, field := range ns {
		if i > 0 {
			b.WriteByte('-')
		}
		writeEscaped(&b, field)
	}
	return b.String()
}

// String returns the text form of draft §1.5, such as "example.2enet-team2--report".
func (t FullTrackName) String() string {
	var b strings.Builder
	b.WriteString(t.Namespace.String())
	b.WriteString("--")
	writeEscaped(&b, t.Name)
	return b.String()
}

func writeEscaped(b *strings.Builder, s string) {
	for i := range len(s) {
		if c := s[i]; isLiteral(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('.')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&0xf])
		}
	}
}

// isLiteral reports whether the text form writes c as it is.
func isLiteral(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// ParseNamespace parses the text form of a namespace; the empty string is the namespace without fields.
// Only what String writes is accepted (draft §1.5.1).
func ParseNamespace(s string) (Namespace, error) {
	if s == "" {
		return Namespace{}, nil
	}
	var ns Namespace
	for part := range strings.SplitSeq(s, "-") {
		field, err := unescape(part)
		if err != nil {
			return nil, fmt.Errorf("namespace %q: %w", s, err)
		}
		ns = append(ns, field)
	}
	if err := ns.Validate(); err != nil {
		return nil, fmt.Errorf("namespace %q: %w", s, err)
	}
	return ns, nil
}

func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if isLiteral(c) {
			b.WriteByte(c)
			continue
		}
		if c != '.' {
			return "", fmt.Errorf("write %q as .%02x", c, c)
		}
		c, err := unescapeByte(s[i+1:])
		if err != nil {
			return "", err
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), nil
}

// unescapeByte decodes the two hexadecimal digits at the start of s.
func unescapeByte(s string) (byte, error) {
	if len(s) < 2 {
		return 0, errors.New("a period needs two hexadecimal digits after it")
	}
	hi, lo := strings.IndexByte(hexDigits, s[0]), strings.IndexByte(hexDigits, s[1])
	if hi < 0 || lo < 0 {
		return 0, fmt.Errorf(".%s: a period needs two lower-case hexadecimal digits after it", s[:2])
	}
	c := byte(hi<<4 | lo)
	if isLiteral(c) {
		return 0, fmt.Errorf(".%s: write it as %q", s[:2], c)
	}
	return c, nil
}
