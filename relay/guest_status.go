package relay

import (
	"cmp"
	"slices"
	"time"
)

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

// Guests describes the present guests, in the order in which they came.
func (r *Relay) Guests() (list []GuestStatus) {
	for _, g := range r.sessions.listGuests() {
		list = append(list, g.status())
	}
	slices.SortFunc(list, func(a, b GuestStatus) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Remote, b.Remote))
	})
	return list
}
