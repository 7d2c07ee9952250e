package moqt

import "unicode/utf8"

// MaxReasonLen is the largest Reason Phrase, in bytes (draft §1.4.4).
const MaxReasonLen = 1024

func (d *decoder) reason() string {
	return string(d.lengthPrefixed(MaxReasonLen, "reason phrase"))
}

// reason writes a Reason Phrase. A longer text is cut, because losing its end harms less than losing the message.
func (e *encoder) reason(s string) {
	if len(s) > MaxReasonLen {
		s = s[:MaxReasonLen]
		for len(s) > 0 {
			if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n > 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	e.lengthPrefixed(s, MaxReasonLen, "reason phrase")
}
