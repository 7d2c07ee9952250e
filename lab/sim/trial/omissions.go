package trial

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sluice/fastpath"
	"sluice/lab/sim"
	"sluice/media"
	"sluice/moqt"
	"sluice/relay"
)

// omissions keep what relays have decided to leave out. They are read from the relays' logs.
type omissions struct {
	mu       sync.Mutex
	all      []omission
	exceeded []string        // addresses and tokens that have used up a quota
	allowed  map[string]bool // addresses and tokens that may
}

// allow notes that an account may use up a quota.
func (o *omissions) allow(account string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.allowed[account] = true
}

// exceed notes that an account has used up a quota.
func (o *omissions) exceed(account string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exceeded = append(o.exceeded, account)
}

// unexpected returns the accounts that have used up a quota, and should not have.
func (o *omissions) unexpected() (faults []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, account := range o.exceeded {
		if !o.allowed[account] {
			faults = append(faults, "a quota is used up of "+account)
		}
	}
	return faults
}

// addLocked adds the omission of a relay. o.mu is held.
func (o *omissions) addLocked(to netip.AddrPort, x relay.Omission) {
	o.all = append(o.all, omission{to: sim.HostOf(to.Addr()), at: time.Now(), Omission: x})
}

// omission is a relay's, for a viewer or for another relay.
type omission struct {
	to netip.Addr // who lacks the objects
	at time.Time
	relay.Omission
	unasked *relay.Unasked // by the relay that lacks them; nil: they were not sent
}

// has reports whether an object of a track is among those that the omission is about. Kernels do not know tracks.
func (o *omission) has(track string, at moqt.Location, subgroup uint64) bool {
	if o.unasked != nil {
		return o.unasked.Track.Name == track && o.unasked.Contains(at)
	}
	of := o.Track.Name == track || o.Track.Name == ""
	return of && o.Group == at.Group && o.Subgroup == subgroup && o.From <= at.Object
}

// given is how long a relay has for the streams of a subscription that has ended.
const given = 30 * time.Second

// isFinal reports whether the objects may be missing for good. The objects of a cancelled stream come on another
// stream, unless the relay has had the first of them for as long as it is given.
func (o *omission) isFinal() bool {
	switch o.Why {
	case media.Severed:
		return false
	case media.Canceled:
		return o.at.Sub(o.Received) >= given
	}
	return true
}

// excuses tell what a viewer may lack or get twice, by what relays have logged.
type excuses struct {
	*life
	viewer *viewer
}

// lacks reports whether a relay has decided that an object does not go to the viewer, or to a relay on the way there.
func (e excuses) lacks(at moqt.Location) bool {
	way := e.way()
	return e.some(at, func(x omission) bool { return x.isFinal() && slices.Contains(way, x.to) })
}

// repeats reports whether an object may come twice to the viewer: a kernel may have sent what its relay never received.
func (e excuses) repeats(at moqt.Location) bool {
	host := sim.Host(e.viewer.host)
	return e.some(at, func(x omission) bool {
		return x.Why == media.Severed && x.to == host && e.viewer.media.bytes(x.From, at) <= x.Sent
	})
}

// some reports whether an omission is about an object, and f is true of it.
func (e excuses) some(at moqt.Location, f func(omission) bool) bool {
	m := e.viewer.media
	track, wire, subgroup := m.track().Name, m.wire(at), m.subgroup(at)
	e.omitted.mu.Lock()
	defer e.omitted.mu.Unlock()
	return slices.ContainsFunc(e.omitted.all, func(x omission) bool {
		return x.has(track, wire, subgroup) && f(x) &&
			(len(m.Restarts) == 0 || e.groupAt(x.Received, wire.Group) == at.Group)
	})
}

// way returns the hosts of the viewer, and of the relays from which its objects may have come.
func (e excuses) way() []netip.Addr {
	hosts := []netip.Addr{sim.Host(e.viewer.host)}
	on := map[int]bool{e.relayOf(e.viewer.spec): true, e.viewer.relay: true}
	for relay := e.last(); relay > 0; relay-- {
		if on[relay] || e.Cluster != nil {
			hosts = append(hosts, sim.Host(relay))
			for _, upstream := range e.Upstream[relay-1] {
				on[upstream] = true
			}
		}
	}
	return hosts
}

// groupAt returns the group that had begun last, at a time, of those with an id.
func (e excuses) groupAt(now time.Time, id uint64) (latest uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for group := range e.Media.Groups {
		begun, ok := e.published[moqt.Location{Group: group}]
		if ok && e.Media.groupID(group) == id && !begun.After(now) {
			latest = group
		}
	}
	return latest
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
		if r.Message == "a quota is used up" && (a.Key == "address" || a.Key == "token") {
			h.omissions.exceed(a.Value.String())
		}
		h.omissions.mu.Lock()
		defer h.omissions.mu.Unlock()
		switch o := a.Value.Any().(type) {
		case relay.Unasked:
			x := omission{to: sim.Host(h.relay), at: time.Now(), unasked: &o}
			x.Received = x.at
			h.omissions.all = append(h.omissions.all, x)
		case fastpath.Unread:
			h.omissions.addLocked(o.Peer, relay.Omission{Group: o.Group, Subgroup: o.Subgroup, Sent: o.Sent,
				Why: media.Severed, Received: time.Now()})
		case relay.Omission:
			if to, err := netip.ParseAddrPort(o.Peer); err == nil {
				h.omissions.addLocked(to, o)
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
