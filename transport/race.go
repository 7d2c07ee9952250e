package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/quic-go/quic-go"
)

// raceDelay is the time before the next address of a host is tried, too (RFC 8305 §5).
const raceDelay = 250 * time.Millisecond

// dialFunc opens a QUIC connection to an address.
type dialFunc func(context.Context, *net.UDPAddr) (*quic.Conn, error)

// dialFirst tries addresses and returns the first connection that is established. It closes the others.
func dialFirst(ctx context.Context, ips []netip.Addr, port uint16, dial dialFunc) (*quic.Conn, error) {
	raceCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan dialed, len(ips))
	started := 0
	start := func() {
		addr := netip.AddrPortFrom(ips[started].Unmap(), port)
		started++
		go func() {
			qc, err := dial(raceCtx, net.UDPAddrFromAddrPort(addr))
			results <- dialed{addr, qc, err}
		}()
	}
	var errs []error
	for start(); ; {
		var next <-chan time.Time
		if started < len(ips) {
			next = time.After(raceDelay)
		}
		select {
		case <-next:
			start()
			continue
		case r := <-results:
			if r.err == nil {
				go closeOthers(results, started-len(errs)-1)
				return r.qc, nil
			}
			errs = append(errs, fmt.Errorf("%v: %w", r.addr, r.err))
		}
		switch {
		case ctx.Err() != nil:
			go closeOthers(results, started-len(errs))
			return nil, context.Cause(ctx)
		case len(errs) == len(ips):
			return nil, errors.Join(errs...)
		case started < len(ips):
			start()
		}
	}
}

// dialed is the result of an attempt.
type dialed struct {
	addr netip.AddrPort
	qc   *quic.Conn
	err  error
}

// closeOthers closes the connections of the next n results.
func closeOthers(results <-chan dialed, n int) {
	for range n {
		if r := <-results; r.err == nil {
			_ = r.qc.CloseWithError(0, "")
		}
	}
}
