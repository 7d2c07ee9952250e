package relay

import (
	"context"
	"net"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// Action is an action that a peer asks permission for.
type Action uint8

// Actions, by the message that asks.
const (
	ActionPublish            Action = iota // PUBLISH
	ActionPublishNamespace                 // PUBLISH_NAMESPACE
	ActionSubscribe                        // SUBSCRIBE
	ActionFetch                            // FETCH
	ActionTrackStatus                      // TRACK_STATUS
	ActionSubscribeNamespace               // SUBSCRIBE_NAMESPACE
	ActionSubscribeTracks                  // SUBSCRIBE_TRACKS
)

// AuthRequest is a request to be authorized.
type AuthRequest struct {
	Action    Action
	Namespace moqt.Namespace // the track's; or the namespace or prefix of a request about namespaces
	Name      string         // the track's; not meaningful for requests about namespaces
	Tokens    []moqt.Token   // the request's, then SETUP's; all have a value
	Authority string         // what the peer connected to
	Path      string
	Remote    net.Addr
	Kind      transport.Kind
}

// Grant is a permission.
type Grant struct {
	Expires time.Time // zero: as long as the session
}

// Authorizer decides what peers may do (draft §9.4, §9.5). The draft leaves the schemes open: implement this to use a
// scheme other than [TokenFile]. Methods are called on many goroutines.
type Authorizer interface {
	// Authorize returns how long the permission lasts. To refuse, it returns a *moqt.RequestError, for example with
	// UNAUTHORIZED or EXPIRED_AUTH_TOKEN; other errors become INTERNAL_ERROR and are logged.
	Authorize(context.Context, AuthRequest) (Grant, error)
}

// Reviewer is implemented by an Authorizer that may withdraw permissions.
type Reviewer interface {
	// Changed reports whether requests that were allowed before may be forbidden now. The relay calls it every second.
	// If it returns true, the relay calls Authorize again for all open requests, and ends the requests that are now
	// refused.
	Changed() bool
}

// AllowAll allows everything.
type AllowAll struct{}

// Authorize implements Authorizer.
func (AllowAll) Authorize(context.Context, AuthRequest) (Grant, error) { return Grant{}, nil }
