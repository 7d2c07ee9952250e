package session

import "sluice/moqt"

// Handler takes the requests of the peer. Each call for a request has a goroutine of its own. The method answers the
// request, or hands it to another goroutine that does. A request is valid until its Context is done.
type Handler interface {
	// HandleSetup decides whether the peer may establish the session. It is called before all other methods. If it
	// returns an error, the session is closed, with the code of a *[moqt.ProtocolError], for example INVALID_PATH, and
	// with UNAUTHORIZED for any other error.
	HandleSetup(*Session, Peer) error
	// HandleSubscribe gets a SUBSCRIBE. The answer is Accept or Reject.
	HandleSubscribe(*Publication)
	// HandlePublish gets a PUBLISH. The answer is Accept or Reject.
	HandlePublish(*Subscription)
	// HandleFetch gets a FETCH; a joining fetch once its subscription is known. The answer is OK or Reject.
	HandleFetch(*IncomingFetch)
	// HandleTrackStatus gets a TRACK_STATUS. The answer is OK or Reject.
	HandleTrackStatus(*IncomingTrackStatus)
	// HandlePublishNamespace gets a PUBLISH_NAMESPACE. The answer is OK or Reject.
	HandlePublishNamespace(*IncomingPublishNamespace)
	// HandleSubscribeNamespace gets a SUBSCRIBE_NAMESPACE. The answer is OK or Reject.
	HandleSubscribeNamespace(*IncomingSubscribeNamespace)
	// HandleSubscribeTracks gets a SUBSCRIBE_TRACKS. The answer is OK or Reject.
	HandleSubscribeTracks(*IncomingSubscribeTracks)
	// HandleGoaway gets a GOAWAY for the session. New requests must go to another session.
	HandleGoaway(*Session, moqt.Goaway)
}

// Unsupported is a [Handler] that accepts all sessions and refuses all requests with NOT_SUPPORTED (draft §4). Handlers
// that serve only some types of requests embed it.
type Unsupported struct{}

var _ Handler = Unsupported{}

func notSupported(r *Request) {
	_ = r.Reject(refuse(moqt.RequestNotSupported, "%s is not supported here", r.kind)) // fails only if it is over
}

// HandleSetup implements [Handler].
func (Unsupported) HandleSetup(*Session, Peer) error { return nil }

// HandleSubscribe implements [Handler].
func (Unsupported) HandleSubscribe(p *Publication) { notSupported(p.Request) }

// HandlePublish implements [Handler].
func (Unsupported) HandlePublish(sub *Subscription) { notSupported(sub.Request) }

// HandleFetch implements [Handler].
func (Unsupported) HandleFetch(f *IncomingFetch) { notSupported(f.Request) }

// HandleTrackStatus implements [Handler].
func (Unsupported) HandleTrackStatus(t *IncomingTrackStatus) { notSupported(t.Request) }

// HandlePublishNamespace implements [Handler].
func (Unsupported) HandlePublishNamespace(p *IncomingPublishNamespace) { notSupported(p.Request) }

// HandleSubscribeNamespace implements [Handler].
func (Unsupported) HandleSubscribeNamespace(p *IncomingSubscribeNamespace) { notSupported(p.Request) }

// HandleSubscribeTracks implements [Handler].
func (Unsupported) HandleSubscribeTracks(p *IncomingSubscribeTracks) { notSupported(p.Request) }

// HandleGoaway implements [Handler].
func (Unsupported) HandleGoaway(*Session, moqt.Goaway) {}
