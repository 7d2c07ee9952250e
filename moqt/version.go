package moqt

import (
	"fmt"
	"slices"
	"strconv"
)

// Version is a version of MOQT, numbered as its Internet-Draft. It selects the wire format; functions that take a
// Version panic if it is not one of Versions.
type Version uint16

// Versions of draft-ietf-moq-transport.
const (
	Draft16 Version = 16
	Draft18 Version = 18
	Draft19 Version = 19
	Draft20 Version = 20
	Draft21 Version = 21
	Draft22 Version = 22

	oldest, newest = Draft16, Draft22
)

// wires holds the formats of all versions, the oldest first. Draft-17 has none.
var wires = [newest - oldest + 1]*wire{
	newWire16(), nil, newWire(Draft18), newWire(Draft19), newWire(Draft20), newWire(Draft21), newWire(Draft22),
}

// Versions lists the versions that this package speaks, preferred ones first: the newest.
func Versions() []Version { return []Version{Draft22, Draft21, Draft20, Draft19, Draft18, Draft16} }

// ALPNs lists the identifiers of Versions, preferred ones first: what a client offers and a server accepts.
func ALPNs() (list []string) {
	for _, v := range Versions() {
		list = append(list, v.ALPN())
	}
	return list
}

// ALPN returns the identifier of v in TLS ALPN and in WT-Available-Protocols (draft §3.1), such as "moqt-18".
func (v Version) ALPN() string { return "moqt-" + strconv.Itoa(int(v)) }

// String names the draft.
func (v Version) String() string { return fmt.Sprintf("draft-ietf-moq-transport-%d", uint16(v)) }

// ParseALPN returns the version that alpn identifies, and false if this package does not speak it.
func ParseALPN(alpn string) (Version, bool) {
	for _, v := range Versions() {
		if v.ALPN() == alpn {
			return v, true
		}
	}
	return 0, false
}

// DataLayout returns the layout of the headers that precede media in version v.
func (v Version) DataLayout() DataLayout { return v.wire().data }

// HasJoiningFetch reports whether a FETCH can name a subscription. In later versions, the subscription itself asks for
// a fill (Parameters.Fill), or the subscriber fetches up to the Largest Object that it has been told.
func (v Version) HasJoiningFetch() bool { return v.wire().fetchTypes }

// HasRendezvous reports whether a SUBSCRIBE can say how long the relay is to wait for a publisher.
func (v Version) HasRendezvous() bool {
	_, ok := v.wire().parameter(ParameterRendezvousTimeout)
	return ok
}

// HasStateNotify reports whether a publisher can say, by PUBLISH_STATE_NOTIFY, what changes about a subscription.
func (v Version) HasStateNotify() bool {
	_, ok := v.wire().messages[MessageStateNotify]
	return ok
}

// HasObjectTimeouts reports whether delivery timeouts may be Object Properties. They may be in draft-19, too, but until
// draft-20 the Low Overhead Media Container has timestamps at the number of one of them.
func (v Version) HasObjectTimeouts() bool { return v >= Draft20 }

// HasSharedTracks reports whether a subscriber may have several subscriptions to a track.
func (v Version) HasSharedTracks() bool { return v >= Draft19 }

// HasLimits reports whether SETUP says how many Range Filters and updates a peer may send.
func (v Version) HasLimits() bool { return v.wire().limitOptions }

// AnswersWithParameters reports whether PUBLISH_OK has the subscriber's parameters. In later versions they follow in a
// REQUEST_UPDATE, and PUBLISH tells what applies before that.
func (v Version) AnswersWithParameters() bool { return v < Draft20 }

// HasOneControlStream reports whether requests of both ends share one control stream. In later versions, each request
// has a stream of its own.
func (v Version) HasOneControlStream() bool { return v.wire().references }

// EndsWithFilter reports whether a subscription ends when the track has passed the end of its filter.
func (v Version) EndsWithFilter() bool { return v < Draft20 }

// wire returns the format of v, which has to be one of Versions.
func (v Version) wire() *wire {
	if v < oldest || v > newest || wires[v-oldest] == nil {
		panic("moqt: unknown version " + v.String())
	}
	return wires[v-oldest]
}

// wire is the wire format of one version: its messages and parameters with their layouts, and the types of its streams
// and datagrams. Code asks this table and does not compare versions; what makes the table, and the methods of Version,
// do that.
type wire struct {
	messages map[MessageType]messageFormat
	// codes are types that stand for messages with another type; one without a format stands for none.
	codes      map[MessageType]messageFormat
	parameters []parameterFormat // in ascending order of type
	streams    streamTypes
	data       DataLayout            // of SUBGROUP_HEADER and OBJECT_DATAGRAM
	filter     func(*Filter, *coder) // a Location Filter
	former     formerCodes

	unknownStreams uint64 // the Stream Count that stands for UnknownStreamCount

	// Features of some versions.
	goawayRequestID bool // Request ID in GOAWAY
	fetchTypes      bool // Fetch Type, Start and End in FETCH, and ends of ranges that are not included
	limitOptions    bool // MAX_FILTER_RANGES and MAX_REQUEST_UPDATES
	timedOutRanges  bool // End of Timed-Out Range

	// What draft-16 has: absolute Group and Object IDs in the response to a FETCH, and one stream for control messages,
	// which therefore refer to requests, with the other differences of draft16.go.
	absoluteFetchIDs, references bool
}

// format returns the format of messages that start with typ.
func (w *wire) format(typ MessageType) (messageFormat, bool) {
	if f, ok := w.codes[typ]; ok {
		return f, f.read != nil
	}
	f, ok := w.messages[typ]
	return f, ok
}

// varint returns how variable-length integers are written.
func (w *wire) varint() varintFormat { return w.data.varint() }

// streamTypes are the types with which unidirectional streams and datagrams start. The types of SUBGROUP_HEADER and
// OBJECT_DATAGRAM belong to the DataLayout.
type streamTypes struct {
	fetch, setup, padding uint64
	paddingDatagram       uint64
}

func (w *wire) parameter(typ ParameterType) (parameterFormat, bool) {
	i := slices.IndexFunc(w.parameters, func(f parameterFormat) bool { return f.typ == typ })
	if i < 0 {
		return parameterFormat{}, false
	}
	return w.parameters[i], true
}

// DataLayout identifies the layout of the headers that precede media: SUBGROUP_HEADER and the objects after it, and
// OBJECT_DATAGRAM. Versions whose headers have the same bytes share a layout. Code that reads and writes these headers
// without this package, as the programs of the fast path do, asks for the layout of the session's version and does not
// serve a session whose layout it does not know.
type DataLayout uint8

const (
	// DataLayout1 is the layout of draft-18 to draft-22: vi64 fields, and types whose bits say which fields follow.
	DataLayout1 DataLayout = 1
	// DataLayout2 is the layout of draft-16: as DataLayout1, but with QUIC's variable-length integers (RFC 9000 §16),
	// and without the bit that SubgroupHeader.FirstObject stands for.
	DataLayout2 DataLayout = 2
)

// String names the layout.
func (l DataLayout) String() string { return fmt.Sprintf("data layout %d", uint8(l)) }

// headerTypes are the types of the headers of one layout.
type headerTypes struct {
	subgroup, datagram typeFamily
}

func (t *headerTypes) checkSubgroup(typ uint64) error {
	if !t.subgroup.contains(typ) || typ&subgroupIDModeMask == subgroupIDModeMask {
		return violation("invalid subgroup header type %#x", typ)
	}
	return nil
}

func (t *headerTypes) checkDatagram(typ uint64) error {
	if !t.datagram.contains(typ) || typ&datagramStatus != 0 && typ&datagramEndOfGroup != 0 {
		return violation("invalid datagram type %#x", typ)
	}
	return nil
}

// typeFamily is a set of types whose bits say what fields follow.
type typeFamily struct {
	fixed uint64 // bits that are always set
	flags uint64 // bits that may be set
}

func (f typeFamily) contains(typ uint64) bool { return typ&^f.flags == f.fixed }

var dataLayouts = [...]*headerTypes{
	DataLayout1: {subgroup: typeFamily{fixed: 0x10, flags: 0x6f}, datagram: typeFamily{flags: 0x2f}},
	DataLayout2: {subgroup: typeFamily{fixed: 0x10, flags: 0x2f}, datagram: typeFamily{flags: 0x2f}},
}

// types returns the types of l, which has to be the layout of a version.
func (l DataLayout) types() *headerTypes {
	if int(l) < len(dataLayouts) && dataLayouts[l] != nil {
		return dataLayouts[l]
	}
	panic("moqt: unknown " + l.String())
}

// varint returns how variable-length integers are written.
func (l DataLayout) varint() varintFormat {
	if l == DataLayout2 {
		return quicVarint
	}
	return vi64
}

// AppendNumber appends x, which has to be at most MaxNumber, as l writes variable-length integers.
func (l DataLayout) AppendNumber(b []byte, x uint64) []byte { return l.varint().append(b, x) }

// MaxNumber returns the largest number that l can express: no larger id exists in its versions.
func (l DataLayout) MaxNumber() uint64 { return l.varint().max() }

// SubgroupType returns the type of a SUBGROUP_HEADER with the fields and flags of h.
func (l DataLayout) SubgroupType(h SubgroupHeader) uint64 {
	subgroup := l.types().subgroup
	return subgroup.fixed | h.flags()&subgroup.flags
}
