package moqt

import (
	"fmt"
	"math"
)

// This file says what draft-16 has. Section numbers are its own. It has the messages of draft-18, with Request IDs, and
// some that later became events of the request's stream. Messages that later drafts added do not exist.

// Types of messages that later drafts have under another type, or as part of another message (§9).
const (
	clientSetup16        MessageType = 0x20
	serverSetup16        MessageType = 0x21
	subscribeNamespace16 MessageType = 0x11
)

// noType is a type of streams or datagrams that cannot appear in draft-16: its numbers are smaller.
const noType = math.MaxUint64

// newWire16 returns the format of draft-16.
func newWire16() *wire {
	w := &wire{
		messages:   messageFormats(Draft18),
		parameters: parameterFormats16(),
		streams: streamTypes{
			fetch:           0x05,
			setup:           noType,
			padding:         noType,
			paddingDatagram: noType,
		},
		data:             DataLayout2,
		filter:           absoluteFilter,
		former:           formerCodes16(),
		unknownStreams:   1<<62 - 1,
		fetchTypes:       true,
		absoluteFetchIDs: true,
		references:       true,
	}
	delete(w.messages, MessagePublishBlocked)
	for typ, f := range map[MessageType]messageFormat{
		MessageMaxRequestID:    layout("MAX_REQUEST_ID", (*MaxRequestID).fields).requester(onControl),
		MessageRequestsBlocked: layout("REQUESTS_BLOCKED", (*RequestsBlocked).fields).requester(onControl),
		MessageUnsubscribe: layout("UNSUBSCRIBE", (*Unsubscribe).fields).
			requester(onSubscribe).responder(onPublish),
		MessageFetchCancel: layout("FETCH_CANCEL", (*FetchCancel).fields).requester(onFetch),
		MessageNamespaceWithdrawn: layout("PUBLISH_NAMESPACE_DONE",
			(*NamespaceWithdrawn).fields).requester(onPublishNamespace),
		MessageNamespaceRevoked: layout("PUBLISH_NAMESPACE_CANCEL",
			(*NamespaceRevoked).fields).responder(onPublishNamespace),
	} {
		w.messages[typ] = f
	}
	setup := w.messages[MessageSetup]
	w.codes = map[MessageType]messageFormat{
		clientSetup16: setup, serverSetup16: serverSetupFormat(), subscribeNamespace16: subscribeNamespaceFormat(),
		MessagePublishOK: w.messages[MessageRequestOK],
		MessageSetup:     {}, MessageSubscribeNamespace: {}, MessageSubscribeTracks: {}, // these are not sent
	}
	return w
}

// code returns the type with which m is sent.
func (w *wire) code(r Reference, m Message) MessageType {
	if !w.references {
		return m.Type()
	}
	switch m := m.(type) {
	case *Setup:
		if m.Server {
			return serverSetup16
		}
		return clientSetup16
	case *SubscribeNamespace, *SubscribeTracks:
		return subscribeNamespace16
	case *RequestOK:
		if r.Answers == MessagePublish {
			return MessagePublishOK
		}
	}
	return m.Type()
}

func serverSetupFormat() messageFormat {
	return messageFormat{name: "SERVER_SETUP", read: func(c *coder) Message {
		m := &Setup{Server: true}
		m.fields(c)
		return m
	}}
}

// Subscribe Options (§9.25).
const (
	optionTracks     = 0
	optionNamespaces = 1
	optionBoth       = 2
)

// subscribeOptions writes Subscribe Options. Later drafts have different messages instead.
func subscribeOptions(c *coder, option uint64) {
	if c.wire.references {
		c.varint(&option)
	}
}

func subscribeNamespaceFormat() messageFormat {
	return messageFormat{name: "SUBSCRIBE_NAMESPACE", read: func(c *coder) Message {
		var tracks SubscribeTracks
		var options uint64
		c.newRequest(&tracks.RequestID)
		tracks.Prefix.fields(c)
		if c.varint(&options); options > optionBoth {
			c.fail(violation("unknown subscribe options %d", options))
		}
		if options == optionTracks {
			tracks.Parameters.fields(c, inSubscribeTracks)
			return &tracks
		}
		m := &SubscribeNamespace{
			RequestID: tracks.RequestID, Prefix: tracks.Prefix, WithTracks: options == optionBoth,
		}
		m.Parameters.fields(c, inSubscribeNamespace)
		return m
	}}
}

// writeOptions16 writes the number of Setup Parameters and the parameters (§9.3). The extensions that package moqt
// knows are for later drafts.
func (m *Setup) writeOptions16(c *coder, options []KeyValuePair) {
	if m.MaxRequestID > 0 {
		options = append(options, KeyValuePair{Type: OptionMaxRequestID, Value: m.MaxRequestID})
	}
	c.varint(new(uint64(len(options))))
	c.pairs(options)
}

// readOptions16 reads the same.
func (m *Setup) readOptions16(c *coder) {
	var want uint64
	c.varint(&want)
	if n := m.readOptions(c); n != want && c.err == nil {
		c.fail(violation("%d setup parameters, the message says %d", n, want))
	}
}

// option16 stores one Setup Parameter and reports whether draft-16 has it.
func (m *Setup) option16(c *coder, option KeyValuePair) (known bool) {
	switch option.Type {
	case OptionMaxRequestID:
		m.MaxRequestID = option.Value
		return true
	case OptionPath, OptionAuthorizationToken, OptionMaxAuthTokenCacheSize, OptionAuthority, OptionImplementation:
		return m.laterOption(c, option)
	}
	m.keep(option)
	return false
}

// parameterFormats16 lists the parameters of §9.2.2. They are Key-Value-Pairs: an even type has a number, an odd one
// bytes with their length in front.
func parameterFormats16() []parameterFormat {
	const (
		subscription = inSubscribe | inPublishOK | inUpdateSubscription
		authorized   = inPublish | inSubscribe | inUpdate | inSubscribeNamespace | inSubscribeTracks |
			inPublishNamespace | inTrackStatus | inFetch
	)
	return []parameterFormat{
		timeout16(),
		in16(tokens(ParameterAuthorizationToken, scopes{}), authorized),
		in16(single(ParameterExpires, scopes{}, func(p *Parameters) **uint64 { return &p.Expires }, number),
			inSubscribeOK|inPublish|inPublishOK|inUpdateOK|inTrackStatusOK|inNamespaceOK),
		in16(single(ParameterLargestObject, scopes{}, func(p *Parameters) **Location { return &p.LargestObject },
			prefixedLocation), inSubscribeOK|inPublish|inUpdateOK|inTrackStatusOK),
		in16(single(ParameterForward, scopes{}, func(p *Parameters) **bool { return &p.Forward }, bool16),
			subscription|inPublish|inSubscribeTracks|inSubscribeNamespace),
		in16(single(ParameterSubscriberPriority, scopes{},
			func(p *Parameters) **uint8 { return &p.SubscriberPriority },
			smallValue[uint8]("subscriber priority", 0, math.MaxUint8)), subscription|inFetch|inUpdateFetch),
		in16(single(ParameterLocationFilter, scopes{}, func(p *Parameters) **Filter { return &p.Filter },
			(*Filter).fields), subscription),
		groupOrder16(),
		in16(single(ParameterNewGroupRequest, scopes{}, func(p *Parameters) **uint64 { return &p.NewGroupRequest },
			number), subscription),
	}
}

// groupOrder16 describes GROUP_ORDER. Draft-14 had a third value, 0, for the publisher's order.
func groupOrder16() parameterFormat {
	value := smallValue[GroupOrder]("group order", uint64(Ascending), uint64(Descending))
	f := in16(single(ParameterGroupOrder, scopes{}, func(p *Parameters) **GroupOrder { return &p.GroupOrder }, value),
		inSubscribe|inPublishOK|inFetch)
	present := f.value
	f.value = func(c *coder, p *Parameters, i int) {
		if c.oldParameters && len(c.b) > 0 && c.b[0] == 0 {
			c.varint(new(uint64))
			return
		}
		present(c, p, i)
	}
	return f
}

func in16(f parameterFormat, s scope) parameterFormat {
	f.scope = s
	return f
}

// timeout16 describes DELIVERY_TIMEOUT, which cannot be 0: it is left out instead (§9.2.2.2).
func timeout16() parameterFormat {
	get := func(p *Parameters) **uint64 { return &p.ObjectDeliveryTimeout }
	value := smallValue[uint64]("delivery timeout", 1, math.MaxUint64)
	f := in16(single(ParameterObjectDeliveryTimeout, scopes{}, get, value),
		inSubscribe|inPublishOK|inUpdateSubscription)
	f.count = func(p *Parameters) int {
		if value := *get(p); value == nil || *value == 0 {
			return 0
		}
		return 1
	}
	return f
}

// smallValue is the encoding of a number that has to be in a range.
func smallValue[T uint8 | uint64 | GroupOrder](what string, least, most uint64) func(*T, *coder) {
	return func(x *T, c *coder) {
		n := uint64(*x)
		if c.varint(&n); n < least || n > most {
			c.check(fmt.Errorf("%s %d: must be %d to %d", what, n, least, most))
		}
		*x = T(n)
	}
}

// bool16 is a number that is 0 or 1.
func bool16(v *bool, c *coder) {
	n := bit(*v)
	smallValue[uint8]("forward", 0, 1)(&n, c)
	*v = n == 1
}

func prefixedLocation(l *Location, c *coder) {
	c.prefixed(maxPayloadLen, "largest object", func(c *coder) { l.fields(c) })
}

// absoluteFilter is the format of SUBSCRIPTION_FILTER (§5.1.2): as in draft-18, but with an absolute End Group.
func absoluteFilter(f *Filter, c *coder) {
	c.check(f.validate())
	if c.writes && f.Type == FilterAbsoluteRange {
		f.EndGroupDelta += f.Start.Group
		if f.EndGroupDelta > maxQUICVarint {
			f.Type = FilterAbsoluteStart // no later group exists
		}
	}
	f.typedFields(c)
	if c.writes || f.Type != FilterAbsoluteRange {
		return
	}
	if f.EndGroupDelta < f.Start.Group {
		c.fail(violation("a subscription filter ends in group %d, before its start %s", f.EndGroupDelta, f.Start))
	}
	f.EndGroupDelta -= f.Start.Group
}

// formerCodes16 returns substitutes for codes of later drafts (§9.8, §9.15), and the PUBLISH_DONE codes that have
// changed places.
func formerCodes16() formerCodes {
	return formerCodes{
		request: map[RequestErrorCode]RequestErrorCode{
			RequestGoingAway:            RequestInternalError,
			RequestExcessiveLoad:        RequestInternalError,
			RequestNamespaceTooLarge:    RequestNotSupported,
			RequestUnsupportedExtension: RequestNotSupported,
			RequestRedirect:             RequestDoesNotExist,
			RequestConflictingFilters:   RequestNotSupported,
			RequestInvalidFilter:        RequestNotSupported,
		},
		done: map[PublishDoneCode]PublishDoneCode{
			DoneTooFarBehind: DoneExpired, DoneExpired: DoneTooFarBehind, DoneExcessiveLoad: DoneExpired,
		},
		received: map[PublishDoneCode]PublishDoneCode{DoneTooFarBehind: DoneExpired, DoneExpired: DoneTooFarBehind},
	}
}

// MaxRequestID lets the peer send more requests: their Request IDs have to be smaller (§9.5). Its value only increases.
type MaxRequestID struct {
	Max uint64
}

// Type implements Message.
func (*MaxRequestID) Type() MessageType { return MessageMaxRequestID }

func (m *MaxRequestID) fields(c *coder) { c.varint(&m.Max) }

// RequestsBlocked says that the sender would send a request if it could (§9.6).
type RequestsBlocked struct {
	Max uint64 // the latest one of the receiver
}

// Type implements Message.
func (*RequestsBlocked) Type() MessageType { return MessageRequestsBlocked }

func (m *RequestsBlocked) fields(c *coder) { c.varint(&m.Max) }

// FetchCancel ends a FETCH (§9.18).
type FetchCancel struct{}

// Type implements Message.
func (*FetchCancel) Type() MessageType { return MessageFetchCancel }

func (*FetchCancel) fields(c *coder) { c.request() }

// NamespaceWithdrawn is PUBLISH_NAMESPACE_DONE: the publisher withdraws a PUBLISH_NAMESPACE (§9.22).
type NamespaceWithdrawn struct{}

// Type implements Message.
func (*NamespaceWithdrawn) Type() MessageType { return MessageNamespaceWithdrawn }

func (*NamespaceWithdrawn) fields(c *coder) { c.request() }

// NamespaceRevoked is PUBLISH_NAMESPACE_CANCEL: the subscriber no longer accepts a PUBLISH_NAMESPACE (§9.24).
type NamespaceRevoked struct {
	Code   RequestErrorCode
	Reason string
}

// Type implements Message.
func (*NamespaceRevoked) Type() MessageType { return MessageNamespaceRevoked }

func (m *NamespaceRevoked) fields(c *coder) {
	if c.writes {
		m.Code = substitute(c.wire.former.request, m.Code)
	}
	c.request()
	c.varint((*uint64)(&m.Code))
	c.reason(&m.Reason)
}
