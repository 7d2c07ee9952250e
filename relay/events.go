package relay

import (
	"time"

	"sluice/moqt"
)

// EventType says what has happened.
type EventType string

// Types of events.
const (
	EventSessionStart EventType = "session_start" // a peer has connected and sent its SETUP
	EventSessionEnd   EventType = "session_end"
	EventPublishStart EventType = "publish_start" // a peer publishes a track: the relay's subscription is established
	EventPublishStop  EventType = "publish_stop"
	// EventFirstSubscriber and EventLastSubscriber are for a track that had no subscriber before, and that has none any
	// more. The session is that of the one who came, or left.
	EventFirstSubscriber EventType = "first_subscriber"
	EventLastSubscriber  EventType = "last_subscriber"
)

// Event is something that has happened at a relay: see Config.OnEvent. A peer chooses all that is text.
type Event struct {
	Type      EventType
	Time      time.Time
	Session   uint64 // SessionStatus.ID
	Remote    string
	Upstream  string              // URL of the upstream relay, if this relay has dialed it
	Transport string              // quic or webtransport
	Authority string              // of the URL that the peer has dialed
	Path      string              // without its query, which may be a credential
	Track     *moqt.FullTrackName // nil in events about sessions
	Reason    string              // of an end; empty if it was in good order
}
