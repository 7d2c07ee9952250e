package relay

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/relay/internal/hub"
	"sluice/relay/withdrawn"
)

// Operator is what an operator does with a running relay.
type Operator struct{ relay *Relay }

// OperatorOf returns the operator of a relay.
func OperatorOf(r *Relay) Operator { return Operator{r} }

// Withdrawn returns the tokens that have lost their force. What they allowed ends at once when they come to the list.
func (o Operator) Withdrawn() *withdrawn.List { return o.relay.leases.Withdrawn }

// Sessions returns the open sessions that a selector chooses, the oldest first. It leaves out the relay's sessions with
// itself, and lists the guests that they serve.
func (o Operator) Sessions(by Selector) []SessionSummary {
	var list []SessionSummary
	peers, _ := o.relay.sessions.list()
	counts := o.relay.directory.Report().OfPeers()
	for _, p := range peers {
		if s := summaryOf(p, counts[&p.Peer]); (p.mayAsk == nil || p.upstream != nil) && by.matches(&s) {
			list = append(list, s)
		}
	}
	for _, g := range o.relay.sessions.listGuests() {
		if s := g.summary(); by.matches(&s) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b SessionSummary) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Kick ends the sessions that a selector chooses, and returns their ids. Sessions with upstream relays only end if the
// selector has their id or role. A client may come back, unless its token is withdrawn.
func (o Operator) Kick(by Selector) (ids []uint64) {
	var ended sync.WaitGroup
	defer ended.Wait()
	for _, s := range o.Sessions(by) {
		if by.kicks(&s) {
			ended.Go(s.end) // which may wait for the peer
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// Role says what a session does, as far as an operator chooses sessions by it.
type Role string

// Roles of sessions. A session may be a publisher and a subscriber.
const (
	Publisher  Role = "publisher"  // of a track
	Subscriber Role = "subscriber" // to a track
	Upstream   Role = "upstream"   // this relay has dialed the peer
)

// ParseRole returns the role with a name.
func ParseRole(name string) (Role, error) {
	if r := Role(name); r == Publisher || r == Subscriber || r == Upstream {
		return r, nil
	}
	return "", fmt.Errorf("role: %q: must be publisher, subscriber or upstream", name)
}

// ParsePrefix parses an IP address, or a prefix of addresses such as 192.0.2.0/24.
func ParsePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("prefix: %q: must be an IP address or a prefix such as 192.0.2.0/24", text)
	}
	return p.Masked(), nil
}

// Selector chooses sessions. The zero value chooses all.
type Selector struct {
	ID      uint64       // 0: any
	Prefix  netip.Prefix // of the address; the zero Prefix: any
	Subject string       // of a token that has allowed something; "": any
	Role    Role         // "": any
}

// String names the sessions.
func (s Selector) String() string {
	var all []string
	if s.ID != 0 {
		all = append(all, fmt.Sprint("id=", s.ID))
	}
	if s.Prefix.IsValid() {
		all = append(all, "prefix="+s.Prefix.String())
	}
	if s.Subject != "" {
		all = append(all, "subject="+s.Subject)
	}
	if s.Role != "" {
		all = append(all, "role="+string(s.Role))
	}
	return strings.Join(all, " ")
}

func (s *Selector) matches(c *SessionSummary) bool {
	return (s.ID == 0 || s.ID == c.ID) &&
		(!s.Prefix.IsValid() || s.Prefix.Contains(c.address)) &&
		(s.Subject == "" || slices.Contains(c.Subjects, s.Subject)) &&
		(s.Role == "" || slices.Contains(c.Roles, s.Role))
}

// kicks reports whether sessions end that the selector matches. This relay dials upstream relays again, and all its
// subscribers need them: they have to be meant.
func (s *Selector) kicks(c *SessionSummary) bool {
	return s.matches(c) && (c.Upstream == "" || s.ID != 0 || s.Role == Upstream)
}

// SessionSummary says who has a session, for operators. Sessions of guests are among them.
type SessionSummary struct {
	ID            uint64    `json:"id"` // counted from 1
	Remote        string    `json:"remote"`
	Transport     string    `json:"transport"`          // as transport.Kind writes it
	Upstream      string    `json:"upstream,omitempty"` // URL of the upstream relay, if this relay has dialed it
	Path          string    `json:"path"`               // of the URL that the peer has dialed, without the query
	Began         time.Time `json:"began"`
	Subjects      []string  `json:"subjects"` // of the tokens that have allowed something
	Roles         []Role    `json:"roles"`
	Publications  int       `json:"publications"`  // tracks that it publishes
	Subscriptions int       `json:"subscriptions"` // tracks that it is subscribed to

	address netip.Addr
	end     func()
}

// kickReason is what a peer is told.
const kickReason = "the operator of the relay has ended the session"

// summaryOf describes the session of a peer.
func summaryOf(p *peer, n hub.TrackCounts) SessionSummary {
	s := SessionSummary{
		ID: p.ID, Remote: p.Remote().String(), Transport: p.Conn.Kind().String(), Upstream: p.URL, Path: p.path(),
		Began: p.since, Subjects: subjectsOf(p.Payers()), Publications: n.Published, Subscriptions: n.Subscribed,
		address: addrOf(p.Remote()), end: func() { p.Session.Close(moqt.SessionNoError, kickReason) },
	}
	s.Roles = rolesOf(&s)
	return s
}

func rolesOf(s *SessionSummary) []Role {
	roles := []Role{}
	if s.Upstream != "" {
		roles = append(roles, Upstream)
	}
	if s.Publications > 0 {
		roles = append(roles, Publisher)
	}
	if s.Subscriptions > 0 {
		roles = append(roles, Subscriber)
	}
	return roles
}

// subjectsOf returns the subjects of the tokens among accounts.
func subjectsOf(payers charge.Payers) []string {
	subjects := []string{}
	for _, a := range payers {
		if a.Kind == charge.ByToken {
			subjects = append(subjects, a.Name)
		}
	}
	return subjects
}

// addrOf returns the IP address of a peer, or the zero Addr.
func addrOf(a net.Addr) netip.Addr {
	ap, _ := netip.ParseAddrPort(a.String())
	return ap.Addr().Unmap().WithZone("")
}
