package udp

// Limits of a batch.
const (
	MaxPacket   = 1500 // bytes of a packet
	maxSegments = 64   // packets of a train: UDP_MAX_SEGMENTS of the kernels before 6.9
	maxMessages = 256
	maxTrain    = 65000     // bytes of a train: less than the largest UDP payload
	batchBytes  = 256 << 10 // of all packets
)

// Message is one packet, or a train: several packets for one route. All but the last have the same size.
type Message struct {
	Route   *Route
	Data    []byte
	Segment int // size of the packets; the last may be smaller
	Count   int
}

// Batch collects packets of several senders for few system calls.
type Batch struct {
	sock     Socket
	buf      []byte
	used     int
	messages []Message
}

// NewBatch returns an empty batch for a socket.
func NewBatch(sock Socket) *Batch {
	return &Batch{sock: sock, buf: make([]byte, batchBytes), messages: make([]Message, 0, maxMessages)}
}

// Full reports whether the batch must be flushed before the next packet.
func (b *Batch) Full() bool { return len(b.messages) == maxMessages || len(b.buf)-b.used < MaxPacket }

// Next returns an empty slice with room for a packet of up to MaxPacket bytes.
func (b *Batch) Next() []byte { return b.buf[b.used:b.used:len(b.buf)] }

// Add adds the packet of n bytes that was written to the result of Next.
func (b *Batch) Add(r *Route, n int) {
	p := b.buf[b.used : b.used+n]
	b.used += n
	if k := len(b.messages); k > 0 && r.trains && b.messages[k-1].takes(r, n) {
		m := &b.messages[k-1]
		m.Data = m.Data[:len(m.Data)+n]
		m.Count++
		return
	}
	b.messages = append(b.messages, Message{Route: r, Data: p, Segment: n, Count: 1})
}

// takes reports whether a packet of n bytes, which lies behind the others in memory, can be part of the train.
func (m *Message) takes(r *Route, n int) bool {
	return m.Route == r && n <= m.Segment && len(m.Data)%m.Segment == 0 && m.Count < maxSegments &&
		len(m.Data)+n <= maxTrain
}

// Flush sends all packets.
func (b *Batch) Flush() {
	if len(b.messages) > 0 {
		b.sock.Write(b.messages)
	}
	clear(b.messages)
	b.messages, b.used = b.messages[:0], 0
}
