package relay

import (
	"crypto/tls"
	"time"

	"sluice/media"
)

// SessionStatus describes a session and what the relay has sent in it.
type SessionStatus struct {
	ID        uint64     `json:"id"` // counted from 1
	Remote    string     `json:"remote"`
	Upstream  string     `json:"upstream,omitempty"` // URL of the upstream relay, if this relay has dialed it
	Transport string     `json:"transport"`          // quic or webtransport
	Path      string     `json:"path"`               // of the URL that the peer has dialed, without the query
	Began     time.Time  `json:"began"`
	Ended     *time.Time `json:"ended,omitempty"`

	Publications  int `json:"publications"`  // tracks that it publishes
	Subscriptions int `json:"subscriptions"` // tracks that it is subscribed to
	OnFastPath    int `json:"on_fast_path"`  // how many of them the kernel forwards to it

	CipherSuite string        `json:"cipher_suite"`
	FastPath    bool          `json:"fast_path"` // the kernel can send on the connection, and open its packets
	Packets     SentPackets   `json:"packets"`   // with media
	Bytes       uint64        `json:"bytes"`     // of those packets
	SRTT        time.Duration `json:"srtt_ns"`   // smoothed
	MinRTT      time.Duration `json:"min_rtt_ns"`
	Controller  string        `json:"congestion_controller,omitempty"`
	Window      int           `json:"window_bytes"` // of the controller
	InFlight    int           `json:"in_flight_bytes"`
	ECN         string        `json:"ecn,omitempty"` // off, testing, paused or capable, see docs/media.md
	// Threshold is the drop policy's: subscriber priority << 8 | publisher priority; 65535 lets everything pass.
	Threshold media.Level `json:"threshold"`
	// BucketRate is how fast the drop policy's bucket fills, in bytes a second; 0: there is none.
	BucketRate int64 `json:"bucket_rate"`

	// Declined counts the copies that the kernel did not send, by reason: see docs/fastpath.md.
	Declined map[string]uint64 `json:"declined,omitempty"`
	// Held counts how often the process did not send, or not yet, by reason: see [media.Reason].
	Held map[string]uint64 `json:"held,omitempty"`
	// Streams counts the streams that have ended, by [media.Outcome]. A stream also counts if no byte of it was sent.
	Streams map[string]uint64 `json:"streams,omitempty"`
	// Renditions has the sets of renditions that the relay chooses from.
	Renditions []RenditionStatus `json:"renditions,omitempty"`
}

// SentPackets counts QUIC packets.
type SentPackets struct {
	Kernel  uint64 `json:"kernel"`
	Process uint64 `json:"process"`
	Lost    uint64 `json:"lost"`
	// Congested counts the packets that paths have marked instead of dropping them (ECN-CE).
	Congested uint64 `json:"congested"`
	Again     uint64 `json:"again"` // retransmissions; only the process repeats
	// Acks counts the ACK frames from the peer, and AckRequests the ACK_FREQUENCY frames that ask it for fewer.
	Acks        uint64 `json:"acks"`
	AckRequests uint64 `json:"ack_requests"`
}

// statusOf describes a session, except for its tracks.
func statusOf(p *peer) SessionStatus {
	s := SessionStatus{
		ID: p.ID, Remote: p.Remote().String(), Upstream: p.URL, Transport: p.Conn.Kind().String(),
		Path: p.path(), Began: p.since, FastPath: p.Forwarder != nil, Threshold: media.LowestPriority,
	}
	s.Renditions = p.Sets.Status()
	m, ok := p.Conn.Hooks().(media.Hooks)
	if !ok {
		return s
	}
	stats := m.Stats()
	s.CipherSuite, s.Controller = tls.CipherSuiteName(stats.CipherSuite), stats.Controller
	s.Packets = SentPackets{
		Kernel: stats.ForwarderPackets, Process: stats.Packets - stats.ForwarderPackets,
		Lost: stats.LostPackets, Congested: stats.CongestedPackets, Again: stats.Retransmissions,
		Acks: stats.Acks, AckRequests: stats.AckRequests,
	}
	s.Bytes, s.Window, s.InFlight, s.Threshold = stats.Bytes, stats.Window, stats.InFlight, stats.Threshold
	s.ECN, s.SRTT, s.MinRTT, s.BucketRate = stats.ECN, stats.SRTT, stats.MinRTT, stats.BucketRate
	s.Held, s.Streams = stats.Held(), outcomes(stats.Outcomes[:])
	if p.Forwarder != nil {
		s.Declined = p.relay.cfg.FastPath.Copies(p.Forwarder)
		delete(s.Declined, "sent")
	}
	return s
}

// outcomes returns the counters of [media.Outcome] that are not zero, by name.
func outcomes(counters []uint64) map[string]uint64 {
	m := make(map[string]uint64)
	for o, n := range counters {
		if n > 0 {
			m[media.Outcome(o).String()] = n
		}
	}
	return m
}
