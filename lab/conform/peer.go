package conform

import (
	"fmt"
	"slices"

	"sluice/moqt"
	"sluice/transport"
)

// peer is a client that writes its messages itself, so that it can break rules. Sessions of draft-16, whose requests
// share a stream, are not for it.
type peer struct {
	*trial
	conn    transport.Conn
	control transport.SendStream
	theirs  *moqt.Setup // of the relay
	nextID  uint64
}

// join returns a peer that has exchanged SETUP with the relay.
func join(t *trial) *peer {
	p := &peer{trial: t, conn: t.dial()}
	p.control = p.uni(t.encode(t.setup()))
	stream, err := p.conn.AcceptUniStream(t.ctx)
	t.must(err, "a control stream of the relay")
	m, err := moqt.NewReader(stream, t.suite.version).Read()
	t.must(err, "SETUP")
	var ok bool
	if p.theirs, ok = m.(*moqt.Setup); !ok {
		t.fail("SETUP", "%s", m.Type())
	}
	return p
}

// uni opens a unidirectional stream. The relay may have stopped it, or closed the session: other methods find out.
func (p *peer) uni(b []byte) transport.SendStream {
	stream, err := p.conn.OpenUniStream()
	p.must(err, "a unidirectional stream")
	_, _ = stream.Write(b)
	return stream
}

// exchange is a request stream.
type exchange struct {
	transport.Stream
	*peer
	reader *moqt.Reader
}

// raw opens a bidirectional stream.
func (p *peer) raw(b []byte) *exchange {
	stream, err := p.conn.OpenStream()
	p.must(err, "a request stream")
	_, _ = stream.Write(b)
	return &exchange{stream, p, moqt.NewReader(stream, p.suite.version)}
}

// accept takes the next request of type M of the relay, and refuses others.
func accept[M moqt.Message](p *peer) *exchange {
	expected := M.Type(*new(M)).String() + " of the relay"
	for {
		stream, err := p.conn.AcceptStream(p.ctx)
		p.must(err, expected)
		e := &exchange{stream, p, moqt.NewReader(stream, p.suite.version)}
		m, err := e.receive()
		p.must(err, expected)
		if _, ok := m.(M); ok {
			return e
		}
		e.send(&moqt.RequestError{Code: moqt.RequestNotSupported})
	}
}

// send writes messages.
func (e *exchange) send(messages ...moqt.Message) { _, _ = e.Write(e.encode(messages...)) }

// receive returns the next message, or the error of the stream.
func (e *exchange) receive() (moqt.Message, error) { return e.reader.Read() }

// expect reads a message of type M.
func expect[M moqt.Message](e *exchange) (m M) {
	expected := m.Type().String()
	got, err := e.receive()
	e.must(err, expected)
	m, ok := got.(M)
	if !ok {
		e.fail(expected, "%s", describe(got))
	}
	return m
}

// refused reads a REQUEST_ERROR with one of the codes.
func (e *exchange) refused(codes ...moqt.RequestErrorCode) {
	expected := fmt.Sprintf("REQUEST_ERROR with %v", codes)
	m, err := e.receive()
	e.must(err, expected)
	if r, ok := m.(*moqt.RequestError); !ok || !slices.Contains(codes, r.Code) {
		e.fail(expected, "%s", describe(m))
	}
}

// alive asks for a track that nobody publishes, and wants any answer.
func (p *peer) alive() {
	p.nextID += 1000 // beyond those that the case may have used
	nobody := moqt.FullTrackName{Namespace: moqt.Namespace{"nobody"}.Join(p.namespace), Name: "x"}
	e := p.raw(p.encode(&moqt.Subscribe{RequestID: p.nextID, Track: nobody}))
	_, err := e.receive()
	p.must(err, "an answer to the next request: the session goes on")
}

// describe names a message, and its code if it has one.
func describe(m moqt.Message) string {
	if e, ok := m.(*moqt.RequestError); ok {
		return fmt.Sprintf("%s %s %q", m.Type(), e.Code, e.Reason)
	}
	return m.Type().String()
}
