package otlp

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	api "go.opentelemetry.io/otel/trace"

	"sluice/moqt"
	"sluice/moqt/session"
)

// Request begins the span of a request of a peer. The span ends with the function that it returns. It is for
// [session.Config.Requested].
func (e *Exporter) Request(q session.RequestInfo) func(error) {
	_, span := e.tracer.Start(context.Background(), q.Type.String(), api.WithSpanKind(api.SpanKindServer),
		api.WithAttributes(
			attribute.String("network.peer.address", q.Remote), attribute.String("moqt.version", q.Version.String()),
			attribute.String("moqt.namespace", q.Track.Namespace.String()),
			attribute.String("moqt.track", strings.ToValidUTF8(q.Track.Name, "\uFFFD")),
		))
	return func(err error) {
		refused, ok := errors.AsType[*moqt.RequestError](err)
		switch {
		case ok:
			span.SetAttributes(attribute.String("moqt.result", refused.Code.String()),
				attribute.Int64("moqt.error_code", int64(refused.Code)))
			span.SetStatus(codes.Error, refused.Code.String())
		case err != nil:
			span.SetAttributes(attribute.String("moqt.result", "no response"))
			span.SetStatus(codes.Error, "no response")
		default:
			span.SetAttributes(attribute.String("moqt.result", "ok"))
		}
		span.End()
	}
}
