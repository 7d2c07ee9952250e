package ipfix

import (
	"encoding/binary"
	"time"
)

const (
	version      = 10
	headerLength = 16
	// maxMessage is so small that messages are not fragmented.
	maxMessage = 1400

	// IDs of sets (RFC 7011 §3.3.2). Sets of data have the IDs of their templates.
	setTemplates       = 2
	setOptionTemplates = 3
	setElements        = 256
	setIPv4            = 257
	setIPv6            = 258
	setGroups          = 259
)

// message is an IPFIX message that is being written.
type message struct {
	b       []byte
	set     uint16 // ID of the last set; 0: there is none
	begin   int    // of this set
	records uint32 // with data
}

// newMessage returns a message with a header, in which finish writes the length and setExportTime the time. number is
// how many records were sent before it.
func newMessage(number, domain uint32) *message {
	m := &message{b: make([]byte, 0, maxMessage)}
	m.b = binary.BigEndian.AppendUint16(m.b, version)
	m.b = binary.BigEndian.AppendUint16(m.b, 0)
	m.b = binary.BigEndian.AppendUint32(m.b, 0)
	m.b = binary.BigEndian.AppendUint32(m.b, number)
	m.b = binary.BigEndian.AppendUint32(m.b, domain)
	return m
}

// open begins a set, unless the last one has this ID.
func (m *message) open(set uint16) {
	if m.set == set {
		return
	}
	m.endSet()
	m.set, m.begin = set, len(m.b)
	m.b = binary.BigEndian.AppendUint16(m.b, set)
	m.b = binary.BigEndian.AppendUint16(m.b, 0)
}

func (m *message) endSet() {
	if m.set != 0 {
		binary.BigEndian.PutUint16(m.b[m.begin+2:], uint16(len(m.b)-m.begin))
	}
}

// finish returns the message.
func (m *message) finish() []byte {
	m.endSet()
	binary.BigEndian.PutUint16(m.b[2:], uint16(len(m.b)))
	return m.b
}

// setExportTime writes into a finished message when it leaves.
func setExportTime(b []byte, at time.Time) { binary.BigEndian.PutUint32(b[4:], uint32(at.Unix())) }

// template adds a template. Those with a scope describe options.
func (m *message) template(id uint16, fields []field, scope int, enterprise uint32) {
	set := uint16(setTemplates)
	if scope > 0 {
		set = setOptionTemplates
	}
	m.open(set)
	m.b = binary.BigEndian.AppendUint16(m.b, id)
	m.b = binary.BigEndian.AppendUint16(m.b, uint16(len(fields)))
	if scope > 0 {
		m.b = binary.BigEndian.AppendUint16(m.b, uint16(scope))
	}
	for _, f := range fields {
		m.field(f, enterprise)
	}
}

func (m *message) field(f field, enterprise uint32) {
	const enterpriseBit = 1 << 15
	id := f.id
	if f.enterprise != 0 {
		id |= enterpriseBit
	}
	m.b = binary.BigEndian.AppendUint16(m.b, id)
	m.b = binary.BigEndian.AppendUint16(m.b, f.length)
	switch f.enterprise {
	case 0:
	case own:
		m.b = binary.BigEndian.AppendUint32(m.b, enterprise)
	default:
		m.b = binary.BigEndian.AppendUint32(m.b, f.enterprise)
	}
}

// add adds a record with data, and returns false if there is no room for it.
func (m *message) add(set uint16, b []byte) bool {
	const setHeader = 4
	if len(m.b)+setHeader+len(b) > maxMessage {
		return false
	}
	m.open(set)
	m.b = append(m.b, b...)
	m.records++
	return true
}
