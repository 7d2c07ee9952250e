package relay

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sluice/media"
	"sluice/moqt"
	"sluice/relay/internal/charge"
	"sluice/transport"
)

// downloads applies the quotas of bytes to subscribers. The bytes sent to them, by user space and by the kernel, cannot
// wait until a quota allows it: it is counted afterwards, and subscriptions of accounts that receive too much end.
type downloads struct {
	relay   *Relay
	settled time.Time // when settle was called last
	// sentOn returns how many bytes of media were sent on a connection. Tests replace it.
	sentOn func(transport.Conn) uint64
}

func sentBytes(c transport.Conn) uint64 {
	if s, ok := c.Hooks().(media.Hooks); ok {
		return s.Stats().Bytes
	}
	return 0
}

// settle charges the bytes sent since the last call, and ends as many of the newest subscriptions of an account as it
// receives too much.
func (s *downloads) settle() {
	now := time.Now()
	elapsed := now.Sub(s.settled)
	s.settled = now
	peers, _ := s.relay.sessions.list()
	for _, p := range peers {
		s.charge(p)
	}
	for _, a := range s.relay.accounts.List() {
		if part := a.Excess(elapsed); part > 0 {
			s.end(a, part)
		}
	}
}

// charge charges what a peer was sent since the last call.
func (s *downloads) charge(p *peer) {
	sent := s.sentOn(p.conn)
	p.mu.Lock()
	bytes := max(sent, p.charged) - p.charged
	p.charged += bytes
	p.mu.Unlock()
	for _, a := range p.payers() {
		a.Received(bytes)
	}
}

// end ends a part of the subscriptions of an account, the newest first: so a viewer who comes too late does not disturb
// those before him.
func (s *downloads) end(a *charge.Account, part float64) {
	var list []*downstream
	s.relay.directory.eachHub(func(h *hub) {
		pays := func(d *downstream) bool { return slices.Contains(d.permit.payers, a) }
		list = slices.AppendSeq(list, h.subscribers.where(pays))
	})
	slices.SortFunc(list, func(a, b *downstream) int { return cmp.Compare(b.number, a.number) })
	for _, d := range list[:int(math.Ceil(part*float64(len(list))))] {
		a.Refuse(charge.DownloadRate)
		d.end(moqt.DoneExcessiveLoad, moqt.ResetExcessiveLoad)
	}
}
