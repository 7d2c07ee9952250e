package transport

import (
	"context"
	"io"
	"net"
	"net/netip"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Inspection shows the encrypted contents of connections, for tools that look at them. The zero value shows nothing.
type Inspection struct {
	// KeyLog gets the secrets of TLS, in the format of SSLKEYLOGFILE. Whoever has them can decrypt everything.
	KeyLog io.Writer
	// Trace makes the qlog of a connection, or returns nil. [RemoteOf] its context is the peer's address.
	Trace func(ctx context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace
}

type remoteKey struct{}

// withRemote returns a context for Trace, if there is one.
func (i *Inspection) withRemote(ctx context.Context, remote net.Addr) context.Context {
	if i.Trace == nil {
		return ctx
	}
	return context.WithValue(ctx, remoteKey{}, remote.(*net.UDPAddr).AddrPort().Addr().Unmap())
}

// RemoteOf returns the address of the peer of a connection whose qlog is to begin.
func RemoteOf(ctx context.Context) netip.Addr {
	remote, _ := ctx.Value(remoteKey{}).(netip.Addr)
	return remote
}
