package inside

import (
	"time"

	"sluice/internal/delay"
	"sluice/relay"
	"sluice/server"
	"sluice/server/cluster"
)

// Limits of a snapshot's lists.
const (
	maxTracks      = 200
	maxSubscribers = 200
	maxNodes       = 200
	maxGuests      = 200
)

// Snapshot is the data of the event "snapshot". Whatever is called a counter grows from the relay's start: a reader
// computes rates from two snapshots.
type Snapshot struct {
	Time time.Time `json:"time"`
	// Sessions with direct peers, how many of them publish, and how many are subscribed.
	Sessions   int `json:"sessions"`
	Publishers int `json:"publishers"`
	Viewers    int `json:"viewers"`

	Received uint64 `json:"received_bytes"` // counter: from publishers and upstream relays
	Sent     Sent   `json:"sent"`

	// FastPath counts the kernel's verdicts, by reason: docs/fastpath.md lists them. Reasons to decline copies begin
	// with copy_; copy_sent is none. It is absent without the fast path.
	FastPath map[string]uint64 `json:"fast_path,omitempty"`
	// Held counts how often the process did not send, or not yet, by reason.
	Held map[string]uint64 `json:"held,omitempty"`

	// Delays are how long publishers' packets stay in the relay until a copy leaves, by who sends it. They are measured
	// while somebody looks.
	Delays Delays `json:"delays"`

	Tracks []relay.TrackStatus `json:"tracks"` // with the most subscribers
	More   Rest                `json:"more"`   // the other tracks

	// Guests are the clients of other protocols that came first. Their media is not in Received and Sent, but for the
	// MoQ broadcasts that are made of it.
	Guests     []Guest `json:"guests,omitempty"`
	MoreGuests int     `json:"more_guests,omitempty"`

	Upstreams []server.UpstreamStatus `json:"upstreams,omitempty"`
	Cluster   *Cluster                `json:"cluster,omitempty"` // absent if the relay is in none
}

// Sent has counters of packets with media: to all subscribers of the relay, or to one.
type Sent struct {
	Bytes   uint64 `json:"bytes"`
	Kernel  uint64 `json:"kernel_packets"`
	Process uint64 `json:"process_packets"`
	Lost    uint64 `json:"lost_packets"`
	Again   uint64 `json:"again_packets"` // retransmissions
}

// Delays has histograms of delays. Bin i counts those from StartsNS[i] to below StartsNS[i+1], in nanoseconds.
type Delays struct {
	StartsNS []time.Duration    `json:"starts_ns"`
	Kernel   [delay.Bins]uint64 `json:"kernel"`  // counters, from the device to the device
	Process  [delay.Bins]uint64 `json:"process"` // counters, from when a packet is read to when copies are sent
}

// Rest sums up the tracks that a snapshot does not list.
type Rest struct {
	Tracks      int    `json:"tracks"`
	Subscribers int    `json:"subscribers"`
	OnFastPath  int    `json:"on_fast_path"`
	Bytes       uint64 `json:"bytes"`
}

// Guest is a client of another protocol.
type Guest struct {
	Remote    string `json:"remote"`
	Protocol  string `json:"protocol"`          // rtsp
	Carrier   string `json:"carrier,omitempty"` // of its media: udp, tcp, or srtp, by UDP
	Publishes bool   `json:"publishes"`         // if not, it plays
	Namespace string `json:"namespace"`         // it publishes or plays
	Received  uint64 `json:"received_bytes"`    // counter: from it
	Sent      uint64 `json:"sent_bytes"`        // counter: to it
	Kernel    uint64 `json:"kernel_packets"`    // counter: to it
	Process   uint64 `json:"process_packets"`   // counter: to it
	Dropped   uint64 `json:"dropped"`           // counter: not sent, without packets left out as a consequence
}

// Cluster is the relay's cluster as this node sees it.
type Cluster struct {
	Name  string `json:"name"`
	Node  string `json:"node"` // this one
	Nodes []Node `json:"nodes"`
	More  int    `json:"more_nodes"`
}

// Node is a node of the cluster, with the sessions over which it gets tracks.
type Node struct {
	ID     string         `json:"id"`
	Region string         `json:"region,omitempty"`
	Routes int            `json:"routes"` // namespaces it has a publisher for
	Load   float64        `json:"load"`   // 0 to 1
	Feeds  []cluster.Feed `json:"feeds,omitempty"`
}

// Detail is the data of the event "track", which follows a snapshot if the request names a track (?track=ID).
type Detail struct {
	ID          uint64       `json:"id"`
	Gone        bool         `json:"gone,omitempty"` // there is no such track, or no longer
	Subscribers []Subscriber `json:"subscribers"`    // the oldest sessions
	More        int          `json:"more"`           // other subscribers
}

// Subscriber is a subscriber of the track that was asked for. The counters count its whole session, which may have
// other tracks, too.
type Subscriber struct {
	Session    uint64            `json:"session"`
	Remote     string            `json:"remote"`
	Transport  string            `json:"transport"` // quic or webtransport
	OnFastPath bool              `json:"on_fast_path"`
	Forward    bool              `json:"forward"` // it wants objects now
	Rendition  *Rendition        `json:"rendition,omitempty"`
	SRTT       time.Duration     `json:"srtt_ns"`
	MinRTT     time.Duration     `json:"min_rtt_ns"`
	Window     int               `json:"window_bytes"`
	InFlight   int               `json:"in_flight_bytes"`
	Sent       Sent              `json:"sent"`
	Declined   map[string]uint64 `json:"declined,omitempty"` // copies that the kernel left to the process
	Held       map[string]uint64 `json:"held,omitempty"`
}

// Rendition tells which one of several renditions the relay serves to a subscriber of one of them.
type Rendition struct {
	Track      string `json:"track"` // in the text form of the draft
	Renditions int    `json:"renditions"`
	Switches   uint64 `json:"switches"`
	Reason     string `json:"reason,omitempty"` // of the last switch
}
