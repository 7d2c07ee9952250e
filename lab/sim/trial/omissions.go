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
	unasked []omission // by a relay, of others
}

// omission is a relay's, for a viewer or for another relay.
type omission struct {
	to netip.Addr // who lacks the objects
	at time.Time
	relay.Omission
	unasked moqt.Range
}

// excuse reports whether a relay has decided that an object does not go to a viewer, or to a relay on the way there.
func (l *life) excuse(w *viewer, at moqt.Location) bool {
	on := l.way(w)
	l.omitted.mu.Lock()
	defer l.omitted.mu.Unlock()
	lacks := func(x omission) bool { return slices.Contains(on, x.to) && l.groupAt(x.at, at) == at.Group }
	return slices.ContainsFunc(l.omitted.unasked, func(x omission) bool {
		return lacks(x) && x.unasked.Contains(l.Media.wire(at))
	}) || slices.ContainsFunc(l.omitted.all, func(x omission) bool {
		return lacks(x) && x.Why != media.Severed && x.has(l.Media.wire(at), l.Media.subgroup(at))
	})
}

// way returns the hosts of a viewer, and of the relays from which its objects may have come.
func (l *life) way(w *viewer) (hosts []netip.Addr) {
	var add func(relay int)
	add = func(relay int) {
		hosts = append(hosts, sim.Host(relay))
		for _, upstream := range l.Upstream[relay-1] {
			add(upstream)
		}
	}
	add(l.relayOf(w.spec))
	add(w.relay)
	for relay := range l.Cluster.size() {
		add(relay + 1)
	}
	return append(hosts, sim.Host(w.host))
}

// groupAt returns the latest group at a time that has the same id as an object's.
func (l *life) groupAt(now time.Time, at moqt.Location) (latest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for group := range l.Media.Groups {
		begun := l.published[moqt.Location{Group: group}]
		if l.Media.groupID(group) == l.Media.groupID(at.Group) && !begun.IsZero() && !begun.After(now) {
			latest = group
		}
	}
	return latest
}

// repeats reports whether an object may come twice to a viewer: a kernel may have sent what its relay never received.
func (l *life) repeats(w *viewer, at moqt.Location) bool {
	l.omitted.mu.Lock()
	defer l.omitted.mu.Unlock()
	return slices.ContainsFunc(l.omitted.all, func(x omission) bool {
		return x.to == sim.Host(w.host) && x.Why == media.Severed && x.has(l.Media.wire(at), l.Media.subgroup(at)) &&
			l.Media.bytesBefore(x.From, at) < x.Sent
	})
}

// bytesBefore returns how many bytes of payload objects of a subgroup have from one on, before another one.
func (m *Media) bytesBefore(first uint64, at moqt.Location) (n int64) {
	for object := first; object < at.Object; object++ {
		if o := (moqt.Location{Group: at.Group, Object: object}); !m.isDatagram(o) && m.subgroup(o) == m.subgroup(at) {
			n += int64(len(m.payload(o)))
		}
	}
	return n
}

// has reports whether an object is among those that the omission is about.
func (o *omission) has(at moqt.Location, subgroup uint64) bool {
	return o.Group == at.Group && o.Subgroup == subgroup && o.From <= at.Object
}

// logged is what a relay logs: it goes on to another handler, if that wants it, and omissions are kept.
type logged struct {
	slog.Handler
	omissions *omissions
	relay     int
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
			h.omissions.unasked = append(h.omissions.unasked, omission{
				to: sim.Host(h.relay), at: time.Now(), unasked: o.Range,
			})
		case relay.Omission:
			if to, err := netip.ParseAddrPort(o.Peer); err == nil {
				h.omissions.all = append(h.omissions.all, omission{to: to.Addr(), at: time.Now(), Omission: o})
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
	return logged{h.Handler.WithAttrs(a), h.omissions, h.relay}
}

// WithGroup implements [slog.Handler].
func (h logged) WithGroup(name string) slog.Handler {
	return logged{h.Handler.WithGroup(name), h.omissions, h.relay}
}
