package transport

import (
	"context"
	"io"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Inspection shows the encrypted contents of connections, for tools that look at them. The zero value shows nothing.
type Inspection struct {
	// KeyLog gets the secrets of TLS, in the format of SSLKEYLOGFILE. Whoever has them can decrypt everything.
	KeyLog io.Writer
	// Trace makes the qlog of a connection.
	Trace func(ctx context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace
}
