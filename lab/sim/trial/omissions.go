package trial

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sluice/lab/sim"
	"sluice/media"
	"sluice/moqt"
	"sluice/relay"
)

// omissions keep what relays have decided to leave out. They are read from the relays' logs.
type omissions struct {
	mu      sync.Mutex
	all     []omission
	unasked []moqt.Range
}

// omission is a relay's, for a viewer or for another relay.
type omission struct {
	to netip.Addr
	at time.Time
	relay.Omission
}

// excuse reports whether a relay has decided that an object does not go to a host, or to another relay, so that the
// viewers of that one may miss it.
func (o *omissions) excuse(host int, at moqt.Location, subgroup uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.unasked, func(r moqt.Range) bool { return r.Contains(at) }) ||
		slices.ContainsFunc(o.all, func(x omission) bool {
			forUs := x.to == sim.Host(host) || x.to.Less(sim.Host(firstClient))
			return forUs && x.Why != media.Severed && x.has(at, subgroup)
		})
}

// repeats reports whether an object may come twice to a host: a kernel may have sent what its relay never received.
func (o *omissions) repeats(host int, at moqt.Location, subgroup uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.all, func(x omission) bool {
		return x.to == sim.Host(host) && x.Why == media.Severed && x.has(at, subgroup)
	})
}

// has reports whether an object is among those that the omission is about.
func (o *omission) has(at moqt.Location, subgroup uint64) bool {
	return o.Group == at.Group && o.Subgroup == subgroup && o.From <= at.Object
}

// logged is what relays log: it goes on to another handler, if that wants it, and omissions are kept.
type logged struct {
	slog.Handler
	omissions *omissions
}

// Enabled implements [slog.Handler].
func (h logged) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (h logged) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		h.omissions.mu.Lock()
		defer h.omissions.mu.Unlock()
		switch o := a.Value.Any().(type) {
		case relay.Unasked:
			h.omissions.unasked = append(h.omissions.unasked, o.Range)
		case relay.Omission:
			if to, err := netip.ParseAddrPort(o.Peer); err == nil {
				h.omissions.all = append(h.omissions.all, omission{to.Addr(), time.Now(), o})
			}
		}
		return true
	})
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h logged) WithAttrs(a []slog.Attr) slog.Handler {
	return logged{h.Handler.WithAttrs(a), h.omissions}
}

// WithGroup implements [slog.Handler].
func (h logged) WithGroup(name string) slog.Handler {
	return logged{h.Handler.WithGroup(name), h.omissions}
}
