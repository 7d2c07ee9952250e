package ipfix

import (
	_ "embed" // the registry
	"encoding/binary"
	"encoding/csv"
	"math"
	"strconv"
	"strings"

	"sluice/rtt/report"
)

// registry has the enterprise-specific elements. Their numbers must not change, and 3 to 5 and 24 must not be used
// again.
//
//go:embed elements.csv
var registry string

// Elements without a number.
const (
	group = 1
	peer  = 2
)

// codes are the numbers of types, semantics and units (RFC 5610 §3).
var codes = map[string]byte{
	"unsigned64": 4, "string": 13, "default": 0, "quantity": 1, "deltaCounter": 3,
	"none": 0, "packets": 3, "nanoseconds": 8,
}

// descriptions returns records that describe the elements, after the number of the enterprise.
func descriptions() (all [][]byte) {
	rows, err := csv.NewReader(strings.NewReader(registry)).ReadAll()
	if err != nil {
		panic(err) // a part of the program
	}
	for _, r := range rows[1:] {
		id, _ := strconv.ParseUint(r[0], 10, 16)
		greatest := uint64(math.MaxUint64)
		if r[1] == "string" {
			greatest = 0
		}
		b := binary.BigEndian.AppendUint16(nil, uint16(id))
		b = append(b, codes[r[1]], codes[r[2]], 0, codes[r[3]])
		b = binary.BigEndian.AppendUint64(b, 0) // the least value
		b = binary.BigEndian.AppendUint64(b, greatest)
		all = append(all, appendText(appendText(b, r[4]), r[5]))
	}
	return all
}

// elementFields are the elements by which a record describes an element. The first two are its scope. They are all of
// those that RFC 5610 §3.9 lists: libfixbuf passes over descriptions that leave some out.
var elementFields = []field{
	{id: 346, length: 4},        // privateEnterpriseNumber
	{id: 303, length: 2},        // informationElementId
	{id: 339, length: 1},        // informationElementDataType
	{id: 344, length: 1},        // informationElementSemantics
	{id: 345, length: 2},        // informationElementUnits
	{id: 342, length: 8},        // informationElementRangeBegin
	{id: 343, length: 8},        // informationElementRangeEnd
	{id: 341, length: variable}, // informationElementName
	{id: 340, length: variable}, // informationElementDescription
}

// values belong to elements whose numbers follow each other.
type values struct {
	first, count uint16
	of           func(*record) []uint64
}

func (v values) fields(enterprise uint32) []field {
	all := make([]field, v.count)
	for n := range all {
		all[n] = field{id: v.first + uint16(n), length: 8, enterprise: enterprise}
	}
	all[0].add = func(b []byte, r *record) []byte {
		for _, n := range v.of(r) {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		return b
	}
	return all
}

// ownValues returns the enterprise-specific numbers of a record.
func ownValues(a *report.Aggregation) []values {
	all := []values{
		{25, 4, func(r *record) []uint64 { return ofTraffic(&r.Sent) }},
		{29, 4, func(r *record) []uint64 { return ofTraffic(&r.Received) }},
		{18, 3, func(r *record) []uint64 { return ofLoss(&r.Sent.QUIC) }},
		{21, 3, func(r *record) []uint64 { return ofLoss(&r.Received.QUIC) }},
		{6, 6, func(r *record) []uint64 { return ofRTTs(&r.RTT) }},
	}
	if a.Parts {
		all = append(all, values{12, 6, func(r *record) []uint64 { return ofRTTs(&r.PeerRTT) }})
	}
	if a.OneDirection {
		all = append(all, values{33, 6, func(r *record) []uint64 { return ofRTTs(&r.OneDirection) }})
	}
	return all
}

func ofTraffic(t *report.PrefixTraffic) []uint64 {
	return []uint64{t.TCPSegments(), t.Retransmissions, t.ECNCapable, t.ECNMarked}
}

func ofLoss(l *report.Loss) []uint64 { return []uint64{l.All, l.Passed, l.Reported} }

func ofRTTs(h *report.Histogram) []uint64 {
	return []uint64{
		h.Count, uint64(h.Min), uint64(h.Quantile(0.5)), uint64(h.Quantile(0.95)), uint64(h.Max), uint64(h.Sum),
	}
}
