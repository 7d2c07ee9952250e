package moqt

import (
	"errors"
	"fmt"
	"strings"
)

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

// ParseFullTrackName parses the text form "namespace--name". Only what String writes is accepted (draft §1.5.1).
func ParseFullTrackName(s string) (FullTrackName, error) {
	left, right, ok := strings.Cut(s, "--")
	if !ok {
		return FullTrackName{}, fmt.Errorf("track name %q: write it as field-field--name", s)
	}
	ns, err := ParseNamespace(left)
	if err != nil {
		return FullTrackName{}, err
	}
	name, err := unescape(right)
	if err != nil {
		return FullTrackName{}, fmt.Errorf("track name %q: %w", s, err)
	}
	t := FullTrackName{ns, name}
	if err := t.Validate(); err != nil {
		return FullTrackName{}, fmt.Errorf("track name %q: %w", s, err)
	}
	return t, nil
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
