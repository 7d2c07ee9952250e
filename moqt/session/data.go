package session

import (
	"context"
	"sync/atomic"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// dataStream is a data stream that is reset if its request ends first.
type dataStream struct {
	transport.SendStream
	closed atomic.Bool
}

// Close implements [transport.SendStream].
func (d *dataStream) Close() error {
	d.closed.Store(true)
	return d.SendStream.Close()
}

// CancelWrite implements [transport.SendStream].
func (d *dataStream) CancelWrite(code uint64) {
	d.closed.Store(true)
	d.SendStream.CancelWrite(code)
}

// openData opens a stream for the data of a request, and sends its header.
func (r *Request) openData(ctx context.Context, header []byte) (transport.SendStream, error) {
	if r.ctx.Err() != nil {
		return nil, context.Cause(r.ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })()
	if err := r.Flush(ctx); err != nil {
		return nil, err
	}
	stream, err := r.s.conn.OpenUniStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	d := &dataStream{SendStream: stream}
	abandon := func() {
		if !d.closed.Load() {
			d.CancelWrite(uint64(moqt.ResetCancelled))
		}
	}
	stop := context.AfterFunc(r.ctx, abandon)
	context.AfterFunc(stream.Context(), func() {
		stop()
		abandon() // after STOP_SENDING, the transport waits for it
	})
	if err := d.writeHeader(header, r.s.cfg.Timeouts.Write); err != nil {
		abandon()
		return nil, err
	}
	return d, nil
}

func (d *dataStream) writeHeader(header []byte, timeout time.Duration) error {
	if err := d.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := d.Write(header); err != nil {
		return err
	}
	return d.SetWriteDeadline(time.Time{})
}

// OpenSubgroup opens a stream for a subgroup, counts it, and sends its header, with the Track Alias filled in. The
// stream is reset when the subscription ends. It waits only for a stream, at the peer's limit.
func (p *Publication) OpenSubgroup(ctx context.Context, h moqt.SubgroupHeader) (transport.SendStream, error) {
	h.TrackAlias = p.alias
	stream, err := p.openData(ctx, moqt.AppendSubgroupHeader(nil, p.s.version, h))
	if err == nil {
		p.AddStreams(1)
	}
	return stream, err
}

// SendDatagram sends an object in a datagram, with the Track Alias filled in. It fails with
// [transport.ErrDatagramTooLarge] if the object is too large for one.
func (p *Publication) SendDatagram(o moqt.ObjectDatagram) error {
	if err := p.ctx.Err(); err != nil {
		return context.Cause(p.ctx)
	}
	o.TrackAlias = p.alias
	b, err := moqt.AppendDatagramHeader(nil, p.s.version, &o)
	if err != nil {
		return err
	}
	return p.s.conn.SendDatagram(append(b, o.Payload...))
}
