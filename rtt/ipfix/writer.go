package ipfix

// writer makes messages of records.
type writer struct {
	number, domain uint32   // number is how many records are in messages that have ended
	messages       [][]byte // complete ones
	last           *message
}

func (w *writer) begin() { w.last = newMessage(w.number, w.domain) }

func (w *writer) end() {
	w.number += w.last.records
	w.messages = append(w.messages, w.last.finish())
}

// add adds a record to the last message, or if it is full, to a new one.
func (w *writer) add(set uint16, record []byte) {
	if w.last.add(set, record) {
		return
	}
	w.end()
	w.begin()
	w.last.add(set, record) // records are shorter than messages
}
