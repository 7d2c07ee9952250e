package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/internal/unlucky"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/transport"
)

// bufferSize is how much of a FETCH response is read at once, in bytes.
const bufferSize = 16 << 10

// errTruncated ends a response within an object whose rest will never come.
var errTruncated = errors.New("the object was cut off upstream")

// Pull is a FETCH of the relay at a publisher that has accepted it.
type Pull struct {
	Covered moqt.Location // how far the response reaches, by FETCH_OK

	source  Source
	budget  *Budget
	request *session.Fetch
	done    func() // takes request back from source
	ok      *moqt.FetchOK
	stream  transport.ReceiveStream
	parser  *moqt.FetchParser
	left    uint64 // payload bytes to come of the current object
}

// Taker takes what a response brings.
type Taker interface {
	TakeItem(*moqt.FetchObject) error // an object without its payload, or a marker
	TakePayload([]byte) error
}

// sourceError is an error in a publisher's response.
type sourceError struct{ error }

// Unwrap is for package errors.
func (e sourceError) Unwrap() error { return e.error }

// Ask asks a publisher for a range, and waits until it accepts.
func Ask(ctx context.Context, source Source, b *Budget, r moqt.Range, p moqt.Parameters) (*Pull, error) {
	ctx, cancel := context.WithTimeout(ctx, b.next())
	defer cancel()
	defer b.wait()()
	request, err := source.Session.Fetch(ctx, moqt.Fetch{
		FetchType: moqt.FetchStandalone, Track: source.Track, Start: r.Start, End: r.FetchEnd(), Parameters: p,
	})
	if err != nil {
		return nil, err
	}
	u := &Pull{
		source: source, budget: b, request: request, done: source.Begin(request),
		parser: moqt.NewFetchParser(source.Session.Version(), p.Order(moqt.Ascending), 0),
	}
	u.ok, err = request.Wait(ctx)
	if err == nil {
		u.stream, err = request.Stream(ctx)
	}
	if err != nil {
		u.Close()
		return nil, err
	}
	u.Covered = moqt.FetchRange(r.Start, u.ok.End).End
	return u, nil
}

// Close ends the request.
func (u *Pull) Close() {
	u.done()
	u.request.Cancel(moqt.ResetCancelled)
}

// Copy hands the response over as it comes, until the context is done. It returns nil if the response was complete, and
// errors of the taker as they are.
func (u *Pull) Copy(ctx context.Context, to Taker) error {
	defer context.AfterFunc(ctx, func() { u.stream.CancelRead(uint64(moqt.ResetCancelled)) })()
	buf := make([]byte, bufferSize)
	for {
		n, end := u.receive(ctx, buf)
		err := u.parse(buf[:n], to)
		switch {
		case err == nil && end == nil:
			continue
		case err == nil && u.left == 0 && errors.Is(end, io.EOF):
			return nil
		case err == nil:
			err = sourceError{end}
		}
		if _, ended := err.(sourceError); ended && u.left > 0 { // the header of the object was handed over
			err = fmt.Errorf("%w: %w", errTruncated, err)
		}
		return err
	}
}

func (u *Pull) receive(ctx context.Context, buf []byte) (int, error) {
	defer u.budget.wait()()
	u.source.Payers.Await(ctx, charge.UploadRate)
	if err := u.stream.SetReadDeadline(time.Now().Add(u.budget.next())); err != nil {
		return 0, err
	}
	n, err := unlucky.Reader(u.stream).Read(buf)
	u.source.Payers.Count(charge.UploadRate, n)
	return n, err
}

// parse hands over what b has.
func (u *Pull) parse(b []byte, to Taker) error {
	for len(b) > 0 {
		if u.left > 0 {
			n := int(min(u.left, uint64(len(b))))
			if _, _, err := u.parser.Next(b[:n]); err != nil && !errors.Is(err, moqt.ErrIncomplete) {
				return u.wrong(err)
			}
			u.left -= uint64(n)
			if err := to.TakePayload(b[:n]); err != nil {
				return err
			}
			b = b[n:]
			continue
		}
		item, n, err := u.parser.Next(b)
		if errors.Is(err, moqt.ErrIncomplete) {
			return nil
		}
		if err != nil {
			return u.wrong(err)
		}
		b = b[n:]
		if err := to.TakeItem(&item.FetchObject); err != nil {
			return err
		}
		u.left = item.PayloadLength
	}
	return nil
}

// wrong handles an error of the parser.
func (u *Pull) wrong(err error) error {
	if violation, ok := errors.AsType[*moqt.ProtocolError](err); ok {
		u.source.Session.Close(violation.Code, violation.Reason)
	}
	return sourceError{err}
}
