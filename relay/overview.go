package relay

// Overview describes the tracks of a relay, and counts who publishes them and who is subscribed.
type Overview struct {
	Tracks     []TrackStatus // in the order in which they came
	Publishers int           // direct peers that publish
	Viewers    int           // direct peers that are subscribed
	Received   uint64        // bytes that publishers and upstream relays have sent, ever
}

// TrackStatus describes a track that is published, wanted or cached.
type TrackStatus struct {
	ID          uint64 // counted from 1
	Scope       string
	Name        string // as moqt.FullTrackName.String writes it
	Publishers  int
	Subscribers int
	OnFastPath  int    // subscribers to whom the kernel forwards the track
	Bytes       uint64 // that publishers have sent
}

// SubscriberStatus describes a subscription to a track, and the session that it belongs to.
type SubscriberStatus struct {
	Session    SessionStatus // without the numbers of its tracks
	OnFastPath bool          // the kernel forwards the track to it
	Forward    bool          // it wants objects now
	// Rendition is the set that the subscription belongs to, if the relay chooses which one of several is served.
	Rendition *RenditionStatus
}
