package cluster

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"sluice/moqt"
)

// prefix is the first token of all subjects.
const prefix = "sluice"

// kind is the kind of a message.
type kind string

const (
	kindBeat  kind = "beat"
	kindRoute kind = "route"
	kindAsk   kind = "ask"
	kindSnap  kind = "snap"
	kindBye   kind = "bye"
	kindNear  kind = "near"
	kindTaken kind = "taken"
)

// everybody is the receiver of a snapshot that many have asked for. No node has this name.
const everybody = "="

// maxNameLen is the length of the longest name of a node or cluster.
const maxNameLen = 63

// maxToken is the length of the longest field of a namespace that a subject has as it is. With hashes of 23 bytes
// instead of longer ones, the longest subject has about 1,000 bytes: NATS takes lines of 4,096.
const maxToken = 24

// CheckName returns an error unless a node, a cluster or a region can have the name. what says which, as the user has
// set it.
func CheckName(what, name string) error {
	ok := name != "" && len(name) <= maxNameLen
	for _, c := range []byte(name) {
		ok = ok && isTokenByte(c)
	}
	if !ok {
		return fmt.Errorf("%s: %q: must have 1 to %d letters, digits, - or _", what, name, maxNameLen)
	}
	return nil
}

func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// subjects makes and reads the subjects of a cluster.
type subjects struct{ root string }

func subjectsOf(cluster string) subjects { return subjects{prefix + "." + cluster + "."} }

// of returns the subject of a message of a node.
func (s subjects) of(k kind, node string, more ...string) string {
	return s.root + string(k) + "." + strings.Join(append([]string{node}, more...), ".")
}

// route returns the subject of a change of a route.
func (s subjects) route(node string, ns moqt.Namespace) string {
	tokens := make([]string, len(ns))
	for i, field := range ns {
		tokens[i] = token(field)
	}
	return s.of(kindRoute, node, tokens...)
}

// patterns returns the subjects that a node with this name subscribes to.
func (s subjects) patterns(node string) []string {
	return []string{
		s.of(kindBeat, "*"), s.of(kindBye, "*"), s.of(kindNear, "*"), s.of(kindTaken, "*"),
		s.of(kindRoute, "*"), s.of(kindRoute, "*", ">"),
		s.of(kindAsk, "*", node), s.of(kindSnap, "*", node), s.of(kindSnap, "*", everybody),
	}
}

// parse returns the kind of a message, and the node that has sent it. ok is false if it is not of this cluster.
func (s subjects) parse(subject string) (k kind, node string, ok bool) {
	rest, ok := strings.CutPrefix(subject, s.root)
	first, rest, more := strings.Cut(rest, ".")
	node, _, _ = strings.Cut(rest, ".")
	return kind(first), node, ok && more && CheckName("node", node) == nil
}

// Permissions returns the patterns of the subjects that a node may publish, and of those that it has to receive, for
// the configuration of a NATS server.
func Permissions(cluster, node string) (publish, subscribe []string) {
	s := subjectsOf(cluster)
	return []string{s.root + "*." + node, s.root + "*." + node + ".>"}, s.patterns(node)
}

// token returns a field of a namespace as a token of a subject. It tells all fields apart, as far as SHA-256 does:
// only hashes begin with "=".
func token(field string) string {
	literal := field != "" && len(field) <= maxToken
	for _, c := range []byte(field) {
		literal = literal && isTokenByte(c)
	}
	if literal {
		return field
	}
	sum := sha256.Sum256([]byte(field))
	return "=" + base64.RawURLEncoding.EncodeToString(sum[:16])
}
