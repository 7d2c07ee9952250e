package trial

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	events "github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// inFlight counts the packets of a client that are neither acknowledged nor lost. It implements [qlogwriter.Trace] and
// [qlogwriter.Recorder].
type inFlight struct {
	packets atomic.Int64
	next    qlogwriter.Recorder // gets all events, too, unless nil
}

type traceFunc = func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace

// trace returns what transport.Inspection asks for. Another trace gets all events, too, unless it is nil.
func (f *inFlight) trace(next traceFunc) traceFunc {
	return func(ctx context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
		if next != nil {
			f.next = next(ctx, isClient, id).AddProducer()
		}
		return f
	}
}

// AddProducer implements [qlogwriter.Trace].
func (f *inFlight) AddProducer() qlogwriter.Recorder { return f }

// Close implements [qlogwriter.Recorder].
func (f *inFlight) Close() error { return nil }

// RecordEvent implements [qlogwriter.Recorder].
func (f *inFlight) RecordEvent(e qlogwriter.Event) {
	if m, ok := e.(events.MetricsUpdated); ok {
		f.packets.Store(int64(m.PacketsInFlight))
	}
	if f.next != nil {
		f.next.RecordEvent(e)
	}
}

// await waits until no packet of the client is in flight. QUIC sends lost data again at once.
func (f *inFlight) await() {
	for time.Sleep(time.Millisecond); f.packets.Load() > 0; {
		time.Sleep(time.Millisecond)
	}
}
