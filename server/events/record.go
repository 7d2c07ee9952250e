package events

import (
	"fmt"
	"time"

	"sluice/auth"
	"sluice/moqt"
	"sluice/relay"
)

// record is an event as the service gets it.
type record struct {
	ID        string          `json:"id"` // unique; ends with a number that counts events
	Type      relay.EventType `json:"type"`
	Time      time.Time       `json:"time"`
	Session   uint64          `json:"session"` // as in sluice relay status
	Remote    string          `json:"remote"`
	Upstream  string          `json:"upstream,omitempty"` // URL of the upstream relay that the relay has dialed
	Transport string          `json:"transport"`
	Authority string          `json:"authority"`           // of the URL that the peer has dialed
	Path      string          `json:"path"`                // without its query
	Namespace *string         `json:"namespace,omitempty"` // of the track; its fields separated by slashes
	Track     *string         `json:"track,omitempty"`
	Reason    string          `json:"reason,omitempty"` // of an end
}

func newRecord(e *relay.Event, instance string, number uint64) record {
	r := record{
		ID: fmt.Sprintf("%s-%d", instance, number), Type: e.Type, Time: e.Time.UTC(), Session: e.Session,
		Remote: e.Remote, Transport: e.Transport, Authority: e.Authority, Path: e.Path, Reason: e.Reason,
		Upstream: e.Upstream,
	}
	if e.Track != nil {
		namespace, name := auth.NamespaceText(e.Track.Namespace), auth.NamespaceText(moqt.Namespace{e.Track.Name})
		r.Namespace, r.Track = &namespace, &name
	}
	return r
}
