package moqt

// streamSet is a set of streams that carry control messages, each named after the message that opens it.
type streamSet uint16

const (
	onControl streamSet = 1 << iota
	onSubscribe
	onPublish
	onFetch
	onTrackStatus
	onPublishNamespace
	onSubscribeNamespace
	onSubscribeTracks

	onNamespaces = onPublishNamespace | onSubscribeNamespace | onSubscribeTracks
	onUpdatable  = onSubscribe | onPublish | onFetch | onNamespaces // what REQUEST_UPDATE can change (draft §10.9)
	onRequest    = onUpdatable | onTrackStatus
)

func (f messageFormat) opening(s streamSet) messageFormat {
	f.opens = s
	return f
}

func (f messageFormat) requester(s streamSet) messageFormat {
	f.fromRequester = s
	return f
}

func (f messageFormat) responder(s streamSet) messageFormat {
	f.fromResponder = s
	return f
}

// streams returns the stream that a message of format f opens, if it opens one.
func (f messageFormat) streams() streamSet {
	if f.opens != 0 {
		return f.opens
	}
	return f.fromRequester & onControl
}
