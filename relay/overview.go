package relay

import "sluice/relay/internal/hub"

// Overview describes the tracks of a relay, and counts who publishes them and who is subscribed.
type Overview struct {
	Tracks     []TrackStatus // in the order in which they came
	Publishers int           // direct peers that publish
	Viewers    int           // direct peers that are subscribed
	Received   uint64        // bytes that publishers and upstream relays have sent, ever
}

// SubscriberStatus describes a subscription to a track, and the session that it belongs to.
type SubscriberStatus struct {
	Session    SessionStatus // without the numbers of its tracks
	OnFastPath bool          // the kernel forwards the track to it
	Forward    bool          // it wants objects now
	// Rendition is the set that the subscription belongs to, if the relay chooses which one of several is served.
	Rendition *RenditionStatus
}

// TrackStatus describes a track that is published, wanted or cached.
type TrackStatus = hub.TrackStatus

// RenditionStatus describes a set of renditions that a subscriber leaves the choice from to the relay.
type RenditionStatus = hub.RenditionStatus

// Omission is what a subscriber does not get although the relay has it, or will have it. The relay logs each omission,
// with the level debug, as the attribute "objects".
type Omission = hub.Omission

// Unasked is what a relay does not fetch although it has missed it, because it would come too late. It is logged as an
// [Omission] is.
type Unasked = hub.Unasked
