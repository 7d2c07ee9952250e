package relay

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
