package relay

import (
	"context"
	"fmt"
	"net"

	"sluice/moqt"
	"sluice/relay/internal/lease"
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

var messageNames = [...]string{
	"PUBLISH", "PUBLISH_NAMESPACE", "SUBSCRIBE", "FETCH", "TRACK_STATUS", "SUBSCRIBE_NAMESPACE", "SUBSCRIBE_TRACKS",
}

// String returns the name of the message.
func (a Action) String() string {
	if int(a) < len(messageNames) {
		return messageNames[a]
	}
	return fmt.Sprintf("Action(%d)", uint8(a))
}

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

// Grant is a permission: when it expires, when to review it, and whose quota it counts for.
type Grant = lease.Grant

// Authorizer decides what peers may do (draft §9.4, §9.5). The draft leaves the schemes open: implement this to use a
// scheme that package [sluice/auth] does not have. Methods are called on many goroutines.
type Authorizer interface {
	// Authorize returns how long the permission lasts. To refuse, it returns a *moqt.RequestError, for example with
	// UNAUTHORIZED or EXPIRED_AUTH_TOKEN; other errors become INTERNAL_ERROR and are logged. INTERNAL_ERROR and
	// EXCESSIVE_LOAD mean that there is no answer: the relay refuses a new request, but an open one goes on, and the
	// relay asks again soon.
	Authorize(context.Context, AuthRequest) (Grant, error)
}

// Reviewer is implemented by an Authorizer that may withdraw permissions.
type Reviewer interface {
	// Changed reports whether requests that were allowed before may be forbidden now. The relay calls it four times a
	// second. If it returns true, the relay calls Authorize again for all open requests and guests, and ends those that
	// are now refused.
	Changed() bool
}

// AllowAll allows everything.
type AllowAll struct{}

// Authorize implements Authorizer.
func (AllowAll) Authorize(context.Context, AuthRequest) (Grant, error) { return Grant{}, nil }
