package moqt

import (
	"fmt"
	"slices"
	"strconv"
)

// Version is a version of MOQT, numbered as its Internet-Draft. It selects the wire format; functions that take a
// Version panic if it is not one of Versions.
type Version uint16

// Draft18 is draft-ietf-moq-transport-18.
const Draft18 Version = 18

// versions holds all that depends on a version, preferred versions first.
var versions = []struct {
	version Version
	wire    *wire
}{
	{Draft18, &draft18},
}

// Versions lists the versions that this package speaks, preferred ones first.
func Versions() []Version {
	list := make([]Version, len(versions))
	for i, v := range versions {
		list[i] = v.version
	}
	return list
}

// ALPNs lists the identifiers of Versions, preferred ones first: what a client offers and a server accepts.
func ALPNs() []string {
	list := make([]string, len(versions))
	for i, v := range versions {
		list[i] = v.version.ALPN()
	}
	return list
}

// ALPN returns the identifier of v in TLS ALPN and in WT-Available-Protocols (draft §3.1), such as "moqt-18".
func (v Version) ALPN() string { return "moqt-" + strconv.Itoa(int(v)) }

// String names the draft.
func (v Version) String() string { return fmt.Sprintf("draft-ietf-moq-transport-%d", uint16(v)) }

// ParseALPN returns the version that alpn identifies, and false if this package does not speak it.
func ParseALPN(alpn string) (Version, bool) {
	i := slices.Index(ALPNs(), alpn)
	if i < 0 {
		return 0, false
	}
	return versions[i].version, true
}

// DataLayout returns the layout of the headers of v that precede media.
func (v Version) DataLayout() DataLayout { return v.wire().data }

// wire returns the format of v, which has to be one of Versions.
func (v Version) wire() *wire {
	for i := range versions {
		if versions[i].version == v {
			return versions[i].wire
		}
	}
	panic("moqt: unknown version " + v.String())
}

// newest returns the format of the preferred version, which knows all messages and parameters of the others.
func newest() *wire { return versions[0].wire }
