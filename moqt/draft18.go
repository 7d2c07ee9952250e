package moqt

// draft18 is draft-ietf-moq-transport-18.
var draft18 = wire{
	messages:   draft18Messages(),
	parameters: draft18Parameters(),
	streams: streamTypes{
		fetch:           0x05,
		setup:           0x2f00,
		padding:         0x132b3e28,
		paddingDatagram: 0x132b3e29,
	},
	data: DataLayout1,
}

// draft18Parameters lists the parameters of draft §10.2.2 to §10.2.14, and those of draft-lcurley-moq-cluster, for
// which Context.Check asks more. A TRACK_STATUS_OK may have EXPIRES, which §10.2.10 does not mention, because §10.14
// demands "the same parameters" as in a SUBSCRIBE_OK.
func draft18Parameters() []parameterFormat {
	const authorized = inPublish | inSubscribe | inUpdate | inSubscribeNamespace | inSubscribeTracks |
		inPublishNamespace | inTrackStatus | inFetch
	const subscription = inPublishOK | inSubscribe | inUpdateSubscription
	const announcement = inPublishNamespace | inNamespace | inUpdateNamespace
	return []parameterFormat{
		single(ParameterObjectDeliveryTimeout, subscription|inUpdate,
			func(p *Parameters) **uint64 { return &p.ObjectDeliveryTimeout }, varintValue),
		tokens(ParameterAuthorizationToken, authorized),
		single(ParameterRendezvousTimeout, inSubscribe,
			func(p *Parameters) **uint64 { return &p.RendezvousTimeout }, varintValue),
		single(ParameterSubgroupDeliveryTimeout, subscription|inUpdate,
			func(p *Parameters) **uint64 { return &p.SubgroupDeliveryTimeout }, varintValue),
		single(ParameterExpires, inSubscribeOK|inPublish|inPublishOK|inUpdateOK|inTrackStatusOK,
			func(p *Parameters) **uint64 { return &p.Expires }, varintValue),
		single(ParameterLargestObject, inSubscribeOK|inPublish|inUpdateOK|inTrackStatusOK,
			func(p *Parameters) **Location { return &p.LargestObject }, locationValue),
		single(ParameterFillTimeout, inFetch,
			func(p *Parameters) **uint64 { return &p.FillTimeout }, varintValue),
		single(ParameterForward, subscription|inPublish|inSubscribeTracks,
			func(p *Parameters) **bool { return &p.Forward }, forwardValue),
		single(ParameterSubscriberPriority, subscription|inFetch|inUpdateFetch,
			func(p *Parameters) **uint8 { return &p.SubscriberPriority }, byteValue),
		single(ParameterSubscriptionFilter, subscription,
			func(p *Parameters) **Filter { return &p.Filter }, filterValue),
		single(ParameterGroupOrder, inSubscribe|inPublishOK|inFetch,
			func(p *Parameters) **GroupOrder { return &p.GroupOrder }, groupOrderValue),
		single(ParameterNewGroupRequest, subscription,
			func(p *Parameters) **uint64 { return &p.NewGroupRequest }, varintValue),
		single(ParameterTrackNamespacePrefix, inUpdatePrefix,
			func(p *Parameters) **Namespace { return &p.NamespacePrefix }, namespaceValue),
		hopPath(ParameterHopPath, announcement|inSubscribe|inSubscribeOK|inPublish|inFetch|inTrackStatus|
			inSubscribeNamespace|inSubscribeTracks),
		single(ParameterRouteCost, announcement, func(p *Parameters) **uint64 { return &p.RouteCost }, varintValue),
	}
}

// draft18Messages lists the messages of draft §10, with the streams on which either end may send them.
func draft18Messages() map[MessageType]messageFormat {
	requestOK := layout("REQUEST_OK", (*RequestOK).encode, (*RequestOK).decode).
		responder(onPublish | onTrackStatus | onNamespaces | onUpdatable).requester(onPublish)
	return map[MessageType]messageFormat{
		MessageSetup: layout("SETUP", (*Setup).encode, (*Setup).decode).requester(onControl),
		MessageGoaway: layout("GOAWAY", (*Goaway).encode, (*Goaway).decode).
			requester(onControl | onRequest).responder(onRequest),
		MessageSubscribe:   layout("SUBSCRIBE", (*Subscribe).encode, (*Subscribe).decode).opening(onSubscribe),
		MessageUnsubscribe: layout("UNSUBSCRIBE", (*Unsubscribe).encode, (*Unsubscribe).decode).requester(onSubscribe),
		MessageSubscribeOK: layout("SUBSCRIBE_OK", (*SubscribeOK).encode, (*SubscribeOK).decode).
			responder(onSubscribe),
		MessagePublish:   layout("PUBLISH", (*Publish).encode, (*Publish).decode).opening(onPublish),
		MessagePublishOK: requestOK,
		MessagePublishDone: layout("PUBLISH_DONE", (*PublishDone).encode, (*PublishDone).decode).
			requester(onPublish).responder(onSubscribe),
		MessageFetch:   layout("FETCH", (*Fetch).encode, (*Fetch).decode).opening(onFetch),
		MessageFetchOK: layout("FETCH_OK", (*FetchOK).encode, (*FetchOK).decode).responder(onFetch),
		MessageTrackStatus: layout("TRACK_STATUS", (*TrackStatus).encode, (*TrackStatus).decode).
			opening(onTrackStatus),
		MessagePublishNamespace: layout("PUBLISH_NAMESPACE", (*PublishNamespace).encode, (*PublishNamespace).decode).
			opening(onPublishNamespace).requester(onPublishNamespace), // again: see Context.checkHops
		MessageSubscribeNamespace: layout("SUBSCRIBE_NAMESPACE",
			(*SubscribeNamespace).encode, (*SubscribeNamespace).decode).opening(onSubscribeNamespace),
		MessageSubscribeTracks: layout("SUBSCRIBE_TRACKS", (*SubscribeTracks).encode, (*SubscribeTracks).decode).
			opening(onSubscribeTracks),
		MessageNamespace: layout("NAMESPACE", (*NamespaceAdded).encode, (*NamespaceAdded).decode).
			responder(onSubscribeNamespace),
		MessageNamespaceDone: layout("NAMESPACE_DONE", (*NamespaceDone).encode, (*NamespaceDone).decode).
			responder(onSubscribeNamespace),
		MessagePublishBlocked: layout("PUBLISH_BLOCKED", (*PublishBlocked).encode, (*PublishBlocked).decode).
			responder(onSubscribeTracks),
		MessageRequestUpdate: layout("REQUEST_UPDATE", (*RequestUpdate).encode, (*RequestUpdate).decode).
			requester(onUpdatable).responder(onPublish),
		MessageRequestOK: requestOK,
		MessageRequestError: layout("REQUEST_ERROR", (*RequestError).encode, (*RequestError).decode).
			requester(onPublish).responder(onRequest),
	}
}
