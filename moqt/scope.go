package moqt

// scope is a set of messages in which a parameter may appear (draft §10.2.1). Where the draft speaks of a message
// "in response to" or "for" another one, each case is a member of its own.
type scope uint32

const (
	inSubscribe scope = 1 << iota
	inSubscribeOK
	inPublish
	inPublishOK
	inFetch
	inFetchOK
	inTrackStatus
	inTrackStatusOK
	inPublishNamespace
	inSubscribeNamespace
	inSubscribeTracks
	inNamespaceOK        // REQUEST_OK to PUBLISH_NAMESPACE, SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS
	inUpdateSubscription // REQUEST_UPDATE of a SUBSCRIBE or PUBLISH
	inUpdateFetch        // REQUEST_UPDATE of a FETCH
	inUpdateNamespace    // REQUEST_UPDATE of a PUBLISH_NAMESPACE
	inUpdatePrefix       // REQUEST_UPDATE of a SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS
	inUpdateOK

	inUpdate    = inUpdateSubscription | inUpdateFetch | inUpdateNamespace | inUpdatePrefix
	inRequestOK = inPublishOK | inTrackStatusOK | inNamespaceOK | inUpdateOK
)
