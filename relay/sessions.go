package relay

import (
	"cmp"
	"crypto/tls"
	"maps"
	"slices"
	"time"

	"sluice/media"
)

// SessionStatus describes a session and what the relay has sent in it.
type SessionStatus struct {
	ID        uint64     `json:"id"` // counted from 1
	Remote    string     `json:"remote"`
	Transport string     `json:"transport"` // quic or webtransport
	Path      string     `json:"path"`      // of the URL that the peer has dialed
	Began     time.Time  `json:"began"`
	Ended     *time.Time `json:"ended,omitempty"`

	Publications  int `json:"publications"`  // tracks that it brings
	Subscriptions int `json:"subscriptions"` // tracks that it gets
	OnFastPath    int `json:"on_fast_path"`  // of those, tracks that the kernel forwards

	CipherSuite string        `json:"cipher_suite"`
	FastPath    bool          `json:"fast_path"` // the kernel can send on the connection, and open its packets
	Packets     SentPackets   `json:"packets"`   // with media
	Bytes       uint64        `json:"bytes"`     // of those packets
	SRTT        time.Duration `json:"srtt_ns"`   // smoothed
	MinRTT      time.Duration `json:"min_rtt_ns"`
	Window      int           `json:"window_bytes"` // of congestion control
	InFlight    int           `json:"in_flight_bytes"`
	Threshold   media.Level   `json:"threshold"` // of the drop policy: subscriber priority << 8 | publisher priority; 65535 lets all pass

	// Declined is how often the kernel did not send a copy, by reason: see docs/fastpath.md.
	Declined map[string]uint64 `json:"declined,omitempty"`
	// Held is how often the process did not send, or not yet, by reason: see [media.Reason].
	Held map[string]uint64 `json:"held,omitempty"`
	// Streams are those that have ended, by [media.Outcome].
	Streams map[string]uint64 `json:"streams,omitempty"`
}

// SentPackets counts QUIC packets.
type SentPackets struct {
	Kernel  uint64 `json:"kernel"`
	Process uint64 `json:"process"`
	Lost    uint64 `json:"lost"`
	Again   uint64 `json:"again"` // retransmissions; only the process repeats
}

// Sessions that have ended are listed for endedFor, as long as there are no more than maxEnded.
const (
	endedFor = time.Minute
	maxEnded = 256
)

// Sessions describes the sessions that there are, and the last ones that have ended, in the order in which they began.
func (r *Relay) Sessions() []SessionStatus {
	r.mu.Lock()
	r.forgetEnded()
	list := slices.Clone(r.ended)
	counts := r.tracksOfPeers()
	peers := slices.Collect(maps.Keys(r.peers))
	r.mu.Unlock()
	for _, p := range peers {
		s := p.status()
		t := counts[p]
		s.Publications, s.Subscriptions, s.OnFastPath = t.up, t.down, t.fast
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b SessionStatus) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

type trackCounts struct{ up, down, fast int }

// tracksOfPeers counts what each peer brings and gets; mu is held.
func (r *Relay) tracksOfPeers() map[*peer]trackCounts {
	counts := make(map[*peer]trackCounts, len(r.peers))
	for _, h := range r.hubs {
		h.mu.Lock()
		for p := range h.up {
			c := counts[p]
			c.up++
			counts[p] = c
		}
		for d := range h.down {
			c := counts[d.peer]
			c.down++
			if d.fast && h.onFastPath {
				c.fast++
			}
			counts[d.peer] = c
		}
		h.mu.Unlock()
	}
	return counts
}

// remember keeps the status of a session that has ended now; mu is held.
func (r *Relay) remember(s SessionStatus) {
	now := time.Now()
	s.Ended = &now
	r.ended = append(r.ended, s)
	r.forgetEnded()
}

// forgetEnded drops what is no longer listed; mu is held.
func (r *Relay) forgetEnded() {
	old := time.Now().Add(-endedFor)
	keep := slices.IndexFunc(r.ended, func(s SessionStatus) bool { return s.Ended.After(old) })
	if keep < 0 {
		keep = len(r.ended)
	}
	r.ended = slices.Delete(r.ended, 0, max(keep, len(r.ended)-maxEnded))
}

// status describes all of a session but its tracks.
func (p *peer) status() SessionStatus {
	s := SessionStatus{
		ID: p.id, Remote: p.conn.RemoteAddr().String(), Transport: p.conn.Kind().String(), Path: p.path(), Began: p.since,
		FastPath: p.forwarder != nil, Threshold: media.LowestPriority,
	}
	m, ok := p.conn.Hooks().(*media.Sender)
	if !ok {
		return s
	}
	stats := m.Stats()
	s.CipherSuite = tls.CipherSuiteName(stats.CipherSuite)
	s.Packets = SentPackets{
		Kernel: stats.ForwarderPackets, Process: stats.Packets - stats.ForwarderPackets, Lost: stats.LostPackets, Again: stats.Retransmissions,
	}
	s.Bytes, s.SRTT, s.MinRTT, s.Window, s.InFlight = stats.Bytes, stats.SRTT, stats.MinRTT, stats.Window, stats.InFlight
	s.Threshold = stats.Threshold
	s.Held, s.Streams = named[media.Reason](stats.Reasons[:]), named[media.Outcome](stats.Outcomes[:])
	if p.forwarder != nil {
		s.Declined = p.relay.cfg.FastPath.Copies(p.forwarder)
		delete(s.Declined, "sent")
	}
	return s
}

// path is that of the URL: WebTransport sends it in the CONNECT request, raw QUIC in SETUP.
func (p *peer) path() string {
	if path := p.conn.Path(); path != "" {
		return path
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setup.Path
}

// named are the counters that are not zero, by the names of their indices.
func named[T interface {
	~uint8
	String() string
}](counters []uint64) map[string]uint64 {
	m := make(map[string]uint64)
	for i, n := range counters {
		if n > 0 {
			m[T(i).String()] = n
		}
	}
	return m
}
