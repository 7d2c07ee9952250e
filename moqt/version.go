package moqt

import (
	"fmt"
	"strconv"
)

// Version is a version of MOQT, numbered as its Internet-Draft. It selects the wire format; functions that take a
// Version panic if it is not one of Versions.
type Version uint16

// Draft18 is draft-ietf-moq-transport-18.
const Draft18 Version = 18

// Versions lists the versions that this package speaks, preferred ones first.
func Versions() []Version { return []Version{Draft18} }

// ALPN returns the identifier of v in TLS ALPN and in WT-Available-Protocols (draft §3.1), such as "moqt-18".
func (v Version) ALPN() string { return "moqt-" + strconv.Itoa(int(v)) }

// String names the draft.
func (v Version) String() string { return fmt.Sprintf("draft-ietf-moq-transport-%d", uint16(v)) }

// ParseALPN returns the version that alpn identifies, and false if this package does not speak it.
func ParseALPN(alpn string) (Version, bool) {
	for _, v := range Versions() {
		if alpn == v.ALPN() {
			return v, true
		}
	}
	return 0, false
}
