package ipfix

import "encoding/binary"

const (
	version = 10
	// maxMessage is so small that messages are not fragmented.
	maxMessage = 1400
	setHeader  = 4

	// IDs of sets (RFC 7011 §3.3.2). Sets of data have the IDs of their templates.
	setTemplates       = 2
	setOptionTemplates = 3
	setElements        = 256
	setPrefixes        = 257 // and the length of their addresses
)

// writer makes messages of templates and records.
type writer struct {
	records  uint32 // with data, in all messages
	messages [][]byte
	b        []byte // the message that is being written
	set      uint16 // ID of its last set; 0: there is none
	at       int    // where this set begins
}

// begin begins a message. end then writes its length, and the exporter when it leaves.
func (w *writer) begin() {
	w.set, w.b = 0, binary.BigEndian.AppendUint16(make([]byte, 0, maxMessage), version)
	w.b = append(w.b, make([]byte, 6)...)
	w.b = binary.BigEndian.AppendUint32(w.b, w.records)
	w.b = append(w.b, 0, 0, 0, 0) // the observation domain: there is one
}

func (w *writer) end() {
	w.endSet()
	binary.BigEndian.PutUint16(w.b[2:], uint16(len(w.b)))
	w.messages = append(w.messages, w.b)
}

// open begins a set, unless the last one has this ID.
func (w *writer) open(set uint16) {
	if w.set == set {
		return
	}
	w.endSet()
	w.set, w.at = set, len(w.b)
	w.b = binary.BigEndian.AppendUint16(w.b, set)
	w.b = append(w.b, 0, 0)
}

func (w *writer) endSet() {
	if w.set != 0 {
		binary.BigEndian.PutUint16(w.b[w.at+2:], uint16(len(w.b)-w.at))
	}
}

// template adds a template to the message. Those with a scope describe options.
func (w *writer) template(id uint16, fields []field, scope uint16) {
	const enterpriseBit = 1 << 15
	head := []uint16{id, uint16(len(fields))}
	if scope == 0 {
		w.open(setTemplates)
	} else {
		w.open(setOptionTemplates)
		head = append(head, scope)
	}
	for _, n := range head {
		w.b = binary.BigEndian.AppendUint16(w.b, n)
	}
	for _, f := range fields {
		if f.enterprise == 0 {
			w.b = binary.BigEndian.AppendUint16(w.b, f.id)
			w.b = binary.BigEndian.AppendUint16(w.b, f.length)
			continue
		}
		w.b = binary.BigEndian.AppendUint16(w.b, f.id|enterpriseBit)
		w.b = binary.BigEndian.AppendUint16(w.b, f.length)
		w.b = binary.BigEndian.AppendUint32(w.b, f.enterprise)
	}
}

// record adds a record to the message, or if that is full, to a new one. Records are shorter than messages.
func (w *writer) record(set uint16, b []byte) {
	if len(w.b)+setHeader+len(b) > maxMessage {
		w.end()
		w.begin()
	}
	w.open(set)
	w.b = append(w.b, b...)
	w.records++
}
