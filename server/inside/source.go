package inside

import (
	"cmp"
	"slices"
	"time"

	"sluice/internal/delay"
	"sluice/relay"
	"sluice/server"
	"sluice/server/cluster"
)

// Source takes snapshots.
type Source interface {
	Snapshot() (Snapshot, error)
	Detail(track uint64) Detail
}

// Of returns the Source of a server.
func Of(s *server.Server) Source { return source{s} }

type source struct{ server *server.Server }

// Snapshot implements [Source].
func (s source) Snapshot() (Snapshot, error) {
	activity, err := s.server.Activity()
	if err != nil {
		return Snapshot{}, err
	}
	return snapshotOf(&activity), nil
}

func snapshotOf(a *server.Activity) Snapshot {
	o, c := a.Overview, a.Media.Counters
	n := Snapshot{
		Time: time.Now(), Sessions: a.Sessions, Publishers: o.Publishers, Viewers: o.Viewers,
		Received: o.Received,
		Sent: Sent{
			Bytes: c.Bytes, Kernel: c.ForwarderPackets, Process: c.Packets - c.ForwarderPackets,
			Lost: c.LostPackets, Again: c.Retransmissions,
		},
		FastPath: a.FastPath, Held: c.Held(), Upstreams: a.Upstreams,
		Delays: Delays{starts(), a.Delays.Kernel.Bins, a.Delays.Process.Bins},
	}
	n.Tracks, n.More = tracksOf(o.Tracks)
	n.Guests, n.MoreGuests = guestsOf(a.Guests)
	if a.Cluster != nil {
		n.Cluster = clusterOf(a.Cluster)
	}
	return n
}

// starts returns where the bins of delays begin.
func starts() []time.Duration {
	list := make([]time.Duration, delay.Bins)
	for bin := range list {
		list[bin] = delay.Start(bin)
	}
	return list
}

// tracksOf sorts the tracks, and sums up those with the fewest subscribers.
func tracksOf(all []relay.TrackStatus) (list []relay.TrackStatus, more Rest) {
	slices.SortStableFunc(all, func(a, b relay.TrackStatus) int { return cmp.Compare(b.Subscribers, a.Subscribers) })
	list = append([]relay.TrackStatus{}, all[:min(len(all), maxTracks)]...) // JSON has [] for none
	for _, t := range all[len(list):] {
		more.Tracks++
		more.Subscribers += t.Subscribers
		more.OnFastPath += t.OnFastPath
		more.Bytes += t.Bytes
	}
	return list, more
}

// guestsOf lists the first guests, and counts the others.
func guestsOf(all []relay.GuestStatus) (list []Guest, more int) {
	for i := range all[:min(len(all), maxGuests)] {
		g := &all[i]
		list = append(list, Guest{
			Remote: g.Remote, Protocol: g.Protocol, Carrier: g.Carrier, Publishes: g.Publishes, Namespace: g.Namespace,
			Received: g.Received, Sent: g.Sent, Kernel: g.Kernel, Process: g.Process, Dropped: g.Dropped,
		})
	}
	return list, len(all) - len(list)
}

func clusterOf(s *cluster.Status) *Cluster {
	c := &Cluster{Name: s.Cluster, Node: s.Node, Nodes: []Node{}}
	for _, n := range s.Nodes {
		if len(c.Nodes) == maxNodes {
			c.More = len(s.Nodes) - maxNodes
			break
		}
		c.Nodes = append(c.Nodes, Node{
			ID: n.ID, Region: n.Card.Region, Routes: len(n.Routes) + n.More, Load: n.Card.Load, Feeds: n.Card.Feeds,
		})
	}
	return c
}

// Detail implements [Source].
func (s source) Detail(track uint64) Detail {
	list, all, ok := s.server.Relay().Subscribers(track, maxSubscribers)
	d := Detail{ID: track, Gone: !ok, Subscribers: make([]Subscriber, 0, len(list)), More: all - len(list)}
	for i := range list {
		d.Subscribers = append(d.Subscribers, subscriberOf(&list[i]))
	}
	return d
}

func subscriberOf(s *relay.SubscriberStatus) Subscriber {
	of := &s.Session
	return Subscriber{
		Session: of.ID, Remote: of.Remote, Transport: of.Transport, OnFastPath: s.OnFastPath, Forward: s.Forward,
		SRTT: of.SRTT, MinRTT: of.MinRTT, Window: of.Window, InFlight: of.InFlight,
		Sent: Sent{
			Bytes: of.Bytes, Kernel: of.Packets.Kernel, Process: of.Packets.Process,
			Lost: of.Packets.Lost, Again: of.Packets.Again,
		},
		Declined: of.Declined, Held: of.Held, Rendition: renditionOf(s.Rendition),
	}
}

func renditionOf(r *relay.RenditionStatus) *Rendition {
	if r == nil {
		return nil
	}
	return &Rendition{Track: r.Track, Renditions: r.Renditions, Switches: r.Switches, Reason: r.Reason}
}
