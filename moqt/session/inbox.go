package session

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// inbox reads the messages of one stream, and gives each a limited time to arrive once it has begun.
type inbox struct {
	stream  transport.ReceiveStream
	timeout time.Duration
	reader  *moqt.Reader
	begun   bool
}

// newInbox reads what was read from the stream already, then the stream.
func (s *Session) newInbox(stream transport.ReceiveStream, already ...byte) *inbox {
	in := &inbox{stream: stream, timeout: s.cfg.Timeouts.Message}
	in.reader = moqt.NewReader(io.MultiReader(bytes.NewReader(already), in), s.version)
	return in
}

// next waits for the next message.
func (in *inbox) next() (moqt.Message, error) {
	in.begun = false
	if in.reader.Buffered() > 0 {
		in.begin()
	}
	m, err := in.reader.Read()
	if errors.Is(err, os.ErrDeadlineExceeded) && in.reader.Buffered() > 0 {
		return nil, &moqt.ProtocolError{
			Code: moqt.SessionControlMessageTimeout, Reason: "a control message was not completed in time",
		}
	}
	if err == nil {
		err = in.stream.SetReadDeadline(time.Time{})
	}
	return m, err
}

// Read implements io.Reader for the reader of messages.
func (in *inbox) Read(p []byte) (int, error) {
	n, err := in.stream.Read(p)
	if n > 0 && !in.begun {
		in.begin()
	}
	return n, err
}

func (in *inbox) begin() {
	in.begun = true
	_ = in.stream.SetReadDeadline(time.Now().Add(in.timeout)) // fails only where reading fails too
}
