package moqt

import "math"

// This file says what each version from draft-18 on has: its messages, its parameters and the messages that may have
// them. Section numbers refer to draft-18, and to draft-20 for later additions.

// newWire returns the format of v.
func newWire(v Version) *wire {
	w := &wire{
		messages:   messageFormats(v),
		parameters: parameterFormats(v),
		streams: streamTypes{
			fetch:           0x05,
			setup:           0x2f00,
			padding:         0x132b3e28,
			paddingDatagram: 0x132b3e29,
		},
		data:   DataLayout1,
		filter: (*Filter).typed,
		former: formerCodes{
			request: make(map[RequestErrorCode]RequestErrorCode), done: make(map[PublishDoneCode]PublishDoneCode),
		},
		unknownStreams:  1<<62 - 1,
		goawayRequestID: v < Draft19,
		limitOptions:    v >= Draft19,
		fetchTypes:      v < Draft20,
		timedOutRanges:  v >= Draft20,
	}
	if v >= Draft19 {
		w.former.request[RequestDuplicateSubscription] = RequestUninterested
	}
	if v >= Draft20 {
		w.filter, w.unknownStreams = (*Filter).counted, math.MaxUint64
		w.former.request[RequestInvalidJoiningRequestID] = RequestInvalidRange
		w.former.done[DoneSubscriptionEnded] = DoneTrackEnded
	}
	if v >= Draft22 {
		w.filter = (*Filter).selfDelimiting
	}
	return w
}

// scopes are the messages in which a parameter may appear: in draft-18, in draft-19, and so on. The last one holds for
// all later drafts. Where a scope is empty, the parameter does not exist.
type scopes []scope

// of returns the scope in version v.
func (s scopes) of(v Version) scope { return s[min(int(v-Draft18), len(s)-1)] }

// with returns the messages of both.
func (s scopes) with(more scopes) scopes {
	both := make(scopes, max(len(s), len(more)))
	for i := range both {
		v := Draft18 + Version(i)
		both[i] = s.of(v) | more.of(v)
	}
	return both
}

// always returns scopes that have never changed.
func always(s scope) scopes { return scopes{s} }

// since19 returns scopes of a parameter of draft-19.
func since19(s scope) scopes { return scopes{0, s} }

// since20 returns scopes of a parameter of draft-20.
func since20(s scope) scopes { return scopes{0, 0, s} }

// allParameters lists the parameters of draft §10.2.2 to §10.2.14, later ones of draft-20 §10.2, and
// draft-lcurley-moq-cluster's, which Context.Check checks further. A TRACK_STATUS_OK may have EXPIRES, which §10.2.10
// does not mention, because §10.14 demands "the same parameters" as in a SUBSCRIBE_OK. Since draft-19, SUBSCRIBE_TRACKS
// may have what a SUBSCRIBE may (draft-20 §10.19.1), and since draft-20 PUBLISH tells the parameters that result.
func allParameters() []parameterFormat {
	const (
		authorized = inPublish | inSubscribe | inUpdate | inSubscribeNamespace | inSubscribeTracks |
			inPublishNamespace | inTrackStatus | inFetch
		announcement = inPublishNamespace | inNamespace | inUpdateNamespace
		answers      = inSubscribeOK | inPublish | inUpdateOK | inTrackStatusOK
		request      = inSubscribe | inUpdateSubscription
		offer        = inPublish | inSubscribeTracks
		objectFilter = request | inSubscribeTracks | inUpdateTracks | inFetch | inFill
	)
	subscription := scopes{request | inPublishOK, request | inPublishOK | inSubscribeTracks, request | offer}
	timeouts := subscription.with(always(inUpdate))
	return []parameterFormat{
		single(ParameterObjectDeliveryTimeout, timeouts,
			func(p *Parameters) **uint64 { return &p.ObjectDeliveryTimeout }, number),
		tokens(ParameterAuthorizationToken, always(authorized)),
		single(ParameterRendezvousTimeout, always(inSubscribe),
			func(p *Parameters) **uint64 { return &p.RendezvousTimeout }, number),
		single(ParameterSubgroupDeliveryTimeout, timeouts,
			func(p *Parameters) **uint64 { return &p.SubgroupDeliveryTimeout }, number),
		single(ParameterExpires, always(answers|inPublishOK).with(since19(inNamespaceOK)),
			func(p *Parameters) **uint64 { return &p.Expires }, number),
		single(ParameterLargestObject, always(answers).with(since20(inStateNotify)),
			func(p *Parameters) **Location { return &p.LargestObject }, (*Location).fields),
		single(ParameterFillTimeout, always(inFetch).with(since20(inFill)),
			func(p *Parameters) **uint64 { return &p.FillTimeout }, number),
		single(ParameterForward, subscription.with(always(offer)).with(since20(inUpdateTracks|inStateNotify)),
			func(p *Parameters) **bool { return &p.Forward }, boolean("forward")),
		single(ParameterSubscriberPriority, subscription.with(always(inFetch|inUpdateFetch)).with(since20(inFill)),
			func(p *Parameters) **uint8 { return &p.SubscriberPriority }, octet),
		single(ParameterLocationFilter, subscription.with(since20(inFetch|inFill|inStateNotify)),
			func(p *Parameters) **Filter { return &p.Filter }, (*Filter).fields),
		single(ParameterGroupOrder, scopes{
			inSubscribe | inPublishOK | inFetch, inSubscribe | inFetch | offer, inSubscribe | inFetch | offer | inFill,
		}, func(p *Parameters) **GroupOrder { return &p.GroupOrder }, (*GroupOrder).fields),
		fill(ParameterFillParameters, since20(request|inSubscribeTracks)),
		rangeFilters(ParameterSubgroupFilter, since19(objectFilter)),
		rangeFilters(ParameterObjectIDFilter, since19(objectFilter)),
		rangeFilters(ParameterPriorityFilter, since19(objectFilter)),
		rangeFilters(ParameterObjectPropertyFilter, since19(objectFilter)),
		rangeFilters(ParameterTrackPropertyFilter, since19(inSubscribeTracks|inUpdateTracks)),
		single(ParameterNewGroupRequest, scopes{request | inPublishOK, request | inPublishOK, request},
			func(p *Parameters) **uint64 { return &p.NewGroupRequest }, number),
		single(ParameterTrackNamespacePrefix, always(inUpdatePrefix|inUpdateTracks),
			func(p *Parameters) **Namespace { return &p.NamespacePrefix }, (*Namespace).fields),
		single(ParameterIncludeProperties, since20(inSubscribe|inTrackStatus|inFetch|inSubscribeTracks),
			func(p *Parameters) **bool { return &p.IncludeProperties }, boolean("include properties")),
		hopPath(ParameterHopPath, always(announcement|inSubscribe|inSubscribeOK|inPublish|inFetch|inTrackStatus|
			inSubscribeNamespace|inSubscribeTracks)),
		single(ParameterRouteCost, always(announcement),
			func(p *Parameters) **uint64 { return &p.RouteCost }, number),
		single(ParameterRendition, always(inSubscribe),
			func(p *Parameters) **Rendition { return &p.Rendition }, (*Rendition).fields),
		single(ParameterPlayback, always(inUpdateSubscription),
			func(p *Parameters) **Playback { return &p.Playback }, (*Playback).fields),
	}
}

var everyParameter = allParameters()

// parameterFormats lists the parameters of a version.
func parameterFormats(v Version) (formats []parameterFormat) {
	for _, f := range everyParameter {
		if f.scope = f.scopes.of(v); f.scope != 0 {
			formats = append(formats, f)
		}
	}
	return formats
}

// messageFormats lists the messages of draft §10, with the streams on which either end may send them.
func messageFormats(v Version) map[MessageType]messageFormat {
	requestOK := layout("REQUEST_OK", (*RequestOK).fields).
		responder(onPublish | onTrackStatus | onNamespaces | onUpdatable).requester(onPublish)
	messages := map[MessageType]messageFormat{
		MessageSetup:       layout("SETUP", (*Setup).fields).requester(onControl),
		MessageGoaway:      layout("GOAWAY", (*Goaway).fields).requester(onControl | onRequest).responder(onRequest),
		MessageSubscribe:   layout("SUBSCRIBE", (*Subscribe).fields).opening(onSubscribe),
		MessageSubscribeOK: layout("SUBSCRIBE_OK", (*SubscribeOK).fields).responder(onSubscribe),
		MessagePublish:     layout("PUBLISH", (*Publish).fields).opening(onPublish),
		MessagePublishDone: layout("PUBLISH_DONE", (*PublishDone).fields).requester(onPublish).responder(onSubscribe),
		MessageFetch:       layout("FETCH", (*Fetch).fields).opening(onFetch),
		MessageFetchOK:     layout("FETCH_OK", (*FetchOK).fields).responder(onFetch),
		MessageTrackStatus: layout("TRACK_STATUS", (*TrackStatus).fields).opening(onTrackStatus),
		MessagePublishNamespace: layout("PUBLISH_NAMESPACE", (*PublishNamespace).fields).
			opening(onPublishNamespace).requester(onPublishNamespace), // again: see Context.checkHops
		MessageSubscribeNamespace: layout("SUBSCRIBE_NAMESPACE",
			(*SubscribeNamespace).fields).opening(onSubscribeNamespace),
		MessageSubscribeTracks: layout("SUBSCRIBE_TRACKS", (*SubscribeTracks).fields).opening(onSubscribeTracks),
		MessageNamespace:       layout("NAMESPACE", (*NamespaceAdded).fields).responder(onSubscribeNamespace),
		MessageNamespaceDone:   layout("NAMESPACE_DONE", (*NamespaceDone).fields).responder(onSubscribeNamespace),
		MessagePublishBlocked:  layout("PUBLISH_BLOCKED", (*PublishBlocked).fields).responder(onSubscribeTracks),
		MessageRequestUpdate: layout("REQUEST_UPDATE", (*RequestUpdate).fields).
			requester(onUpdatable).responder(onPublish),
		MessageRequestOK:    requestOK,
		MessageRequestError: layout("REQUEST_ERROR", (*RequestError).fields).requester(onPublish).responder(onRequest),
	}
	if v == Draft18 { // tolerated: see Unsubscribe and RequestOK
		messages[MessageUnsubscribe] = layout("UNSUBSCRIBE", (*Unsubscribe).fields).requester(onSubscribe)
		messages[MessagePublishOK] = requestOK
	}
	if v >= Draft20 {
		messages[MessageStateNotify] = layout("PUBLISH_STATE_NOTIFY", (*StateNotify).fields).
			requester(onPublish).responder(onSubscribe)
	}
	return messages
}
