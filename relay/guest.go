package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/lease"
)

// Guest is a client of another protocol than MoQT, which a server beside the relay serves. It needs the permission of a
// peer, and what it uses is charged to the same accounts: it is a session of its address and its token.
type Guest struct {
	relay *Relay
	id    uint64 // from the same counter as session ids; sessions.addGuest sets it
	ask   AuthRequest
	purse charge.Purse
	ctx   context.Context
	end   context.CancelCauseFunc
	left  sync.Once
	began time.Time

	mu      sync.Mutex
	allowed []moqt.FullTrackName // see allow

	carrier                 atomic.Value // string
	received, sent, dropped atomic.Uint64
	kernel, process         atomic.Uint64 // packets, by who has sent them
}

// ErrWithdrawn is the cause of a Guest's context when its permission has ended, or an operator has ended it.
var ErrWithdrawn = errors.New("the permission has ended")

// enter charges the accounts and asks for the permission.
func (g *Guest) enter(ctx context.Context) *moqt.RequestError {
	r := g.relay
	if !r.sessions.addGuest(g) {
		return &moqt.RequestError{Code: moqt.RequestExcessiveLoad, Reason: errTooManySessions.Error()}
	}
	context.AfterFunc(g.ctx, func() { r.sessions.removeGuest(g) })
	if !g.purse.Address.Allow() {
		return g.purse.Address.Refusal(charge.RequestRate)
	}
	l := g.newLease(g.ask)
	ask := func() *moqt.RequestError { return l.Obtain(ctx, nil) }
	if _, refused := obtain(g.ctx, r.accounts, &g.purse, g.ask.Action, l, ask); refused != nil {
		return refused
	}
	g.hold(l)
	return nil
}

// allow asks whether the guest may also subscribe to another track. Then its permission is about that, too: the guest
// has to go when it may not any more.
func (g *Guest) allow(ctx context.Context, track moqt.FullTrackName) *moqt.RequestError {
	g.mu.Lock()
	known := slices.ContainsFunc(g.allowed, track.Equal)
	g.mu.Unlock()
	if known || g.ask.Action == ActionSubscribe && track.Equal(g.track()) {
		return nil
	}
	ask := g.ask
	ask.Action, ask.Namespace, ask.Name = ActionSubscribe, track.Namespace, track.Name
	l := g.newLease(ask)
	if refused := l.Obtain(ctx, nil); refused != nil {
		return refused
	}
	g.mu.Lock()
	g.allowed = append(g.allowed, track)
	g.mu.Unlock()
	g.hold(l)
	return nil
}

func (g *Guest) track() moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: g.ask.Namespace, Name: g.ask.Name}
}

func (g *Guest) newLease(ask AuthRequest) *lease.Lease {
	return g.relay.leases.New(g.ctx, func(ctx context.Context, _ []moqt.Token) (Grant, *moqt.RequestError) {
		return g.relay.authorize(ctx, ask)
	})
}

// hold ends the guest when a lease ends.
func (g *Guest) hold(l *lease.Lease) {
	context.AfterFunc(g.ctx, l.Release)
	l.Begin(func(*moqt.RequestError) { g.end(ErrWithdrawn) })
}

// SharesToken reports whether the permissions of two guests belong to one subject (Grant.Subject).
func (g *Guest) SharesToken(other *Guest) bool {
	mine, others := g.purse.Payers(), other.purse.Payers()
	return len(mine) > 1 && len(others) > 1 && mine[1] == others[1]
}

// Context is done when the guest may not stay: its cause is then ErrWithdrawn. It is also done after Leave.
func (g *Guest) Context() context.Context { return g.ctx }

// Leave ends what Admit began.
func (g *Guest) Leave() {
	g.left.Do(func() {
		g.end(context.Canceled)
		g.purse.Payers().Give(charge.SessionsOpen)
	})
}

// Upload counts bytes of media that the guest has sent, and reports whether they may be used: not if an account has
// sent more than its quota allows.
func (g *Guest) Upload(n int) bool {
	if g.purse.Payers().Refuse(charge.UploadRate) {
		return false
	}
	g.purse.Payers().Count(charge.UploadRate, n)
	g.received.Add(uint64(n))
	return true
}

// Download counts bytes of media for the guest, and reports whether they may be sent: not if an account has received
// more than its quota allows.
func (g *Guest) Download(n int) bool {
	if g.purse.Payers().Refuse(charge.DownloadRate) {
		return false
	}
	for _, a := range g.purse.Payers() {
		a.Received(uint64(n))
	}
	g.sent.Add(uint64(n))
	return true
}

// SetCarrier says how the guest's media travels.
func (g *Guest) SetCarrier(name string) { g.carrier.Store(name) }

// Carrier returns what [Guest.SetCarrier] was called with last. It waits for no lock.
func (g *Guest) Carrier() string {
	name, _ := g.carrier.Load().(string)
	return name
}

// Drop counts a packet that could not be sent to the guest or exceeded its quota. What is left out because of that, as
// the rest of a group that cannot be decoded without it, does not count.
func (g *Guest) Drop() { g.dropped.Add(1) }

// CountPacket counts a packet that was sent to the guest, by the kernel or by the process.
func (g *Guest) CountPacket(byKernel bool) {
	if byKernel {
		g.kernel.Add(1)
	} else {
		g.process.Add(1)
	}
}

func (g *Guest) status() GuestStatus {
	return GuestStatus{
		Remote: g.ask.Remote.String(), Protocol: g.ask.Kind.String(), Carrier: g.Carrier(),
		Publishes: g.ask.Action == ActionPublishNamespace, Namespace: g.ask.Namespace.String(), Began: g.began,
		Received: g.received.Load(), Sent: g.sent.Load(), Dropped: g.dropped.Load(),
		Kernel: g.kernel.Load(), Process: g.process.Load(),
	}
}

// summary describes the guest as a session.
func (g *Guest) summary() SessionSummary {
	s := SessionSummary{
		ID: g.id, Remote: g.ask.Remote.String(), Transport: g.ask.Kind.String(), Path: g.ask.Path, Began: g.began,
		Subjects: subjectsOf(g.purse.Payers()), Subscriptions: 1, address: addrOf(g.ask.Remote),
		end: func() { g.end(ErrWithdrawn) },
	}
	if g.ask.Action == ActionPublishNamespace {
		s.Publications, s.Subscriptions = 1, 0
	}
	s.Roles = rolesOf(&s)
	return s
}

// GuestStatus describes a [Guest].
type GuestStatus struct {
	Remote    string    `json:"remote"`
	Protocol  string    `json:"protocol"`          // rtsp
	Carrier   string    `json:"carrier,omitempty"` // of its media: udp, tcp, or srtp, by UDP
	Publishes bool      `json:"publishes"`         // if not, it plays
	Namespace string    `json:"namespace"`
	Began     time.Time `json:"began"`

	Received uint64 `json:"received_bytes"` // media that it has sent to the relay
	Sent     uint64 `json:"sent_bytes"`     // media that it was sent
	Kernel   uint64 `json:"kernel_packets"` // that the kernel has sent to it
	Process  uint64 `json:"process_packets"`
	Dropped  uint64 `json:"dropped"` // see [Guest.Drop]
}
