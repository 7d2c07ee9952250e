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
		MessageMaxRequestID: layout("MAX_REQUEST_ID", (*MaxRequestID).encode, (*MaxRequestID).decode).
			requester(onControl),
		MessageRequestsBlocked: layout("REQUESTS_BLOCKED", (*RequestsBlocked).encode, (*RequestsBlocked).decode).
			requester(onControl),
		MessageUnsubscribe: layout("UNSUBSCRIBE", (*Unsubscribe).encode, (*Unsubscribe).decode).
			requester(onSubscribe).responder(onPublish),
		MessageFetchCancel: layout("FETCH_CANCEL", (*FetchCancel).encode, (*FetchCancel).decode).requester(onFetch),
		MessageNamespaceWithdrawn: layout("PUBLISH_NAMESPACE_DONE",
			(*NamespaceWithdrawn).encode, (*NamespaceWithdrawn).decode).requester(onPublishNamespace),
		MessageNamespaceRevoked: layout("PUBLISH_NAMESPACE_CANCEL",
			(*NamespaceRevoked).encode, (*NamespaceRevoked).decode).responder(onPublishNamespace),
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
	return messageFormat{name: "SERVER_SETUP", decode: func(d *decoder) Message {
		m := &Setup{Server: true}
		m.decode(d)
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
func (e *encoder) subscribeOptions(option uint64) {
	if e.wire.references {
		e.varint(option)
	}
}

func subscribeNamespaceFormat() messageFormat {
	return messageFormat{name: "SUBSCRIBE_NAMESPACE", decode: func(d *decoder) Message {
		id, prefix, options := d.newRequest(), d.namespace(), d.varint()
		if options > optionBoth {
			d.fail(violation("unknown subscribe options %d", options))
		}
		if options == optionTracks {
			return &SubscribeTracks{id, prefix, d.parameters(inSubscribeTracks)}
		}
		return &SubscribeNamespace{
			RequestID: id, Prefix: prefix, WithTracks: options == optionBoth,
			Parameters: d.parameters(inSubscribeNamespace),
		}
	}}
}

// setupOf16 writes the number of Setup Parameters and the parameters (§9.3). The extensions that package moqt knows are
// for later drafts.
func (e *encoder) setupOf16(m *Setup, options []KeyValuePair) {
	if m.MaxRequestID > 0 {
		options = append(options, KeyValuePair{Type: OptionMaxRequestID, Value: m.MaxRequestID})
	}
	e.varint(uint64(len(options)))
	b, err := e.wire.varint().appendPairs(e.b, options)
	e.b = b
	e.fail(err)
}

// setupOf16 reads the same.
func (d *decoder) setupOf16(m *Setup) {
	want := d.varint()
	if n := m.decodeOptions(d); n != want && d.err == nil {
		d.fail(violation("%d setup parameters, the message says %d", n, want))
	}
}

// optionOf16 stores one Setup Parameter and reports whether draft-16 has it.
func (m *Setup) optionOf16(d *decoder, option KeyValuePair) (known bool) {
	switch option.Type {
	case OptionMaxRequestID:
		m.MaxRequestID = option.Value
		return true
	case OptionPath, OptionAuthorizationToken, OptionMaxAuthTokenCacheSize, OptionAuthority, OptionImplementation:
		return m.laterOption(d, option)
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
		in16(single(ParameterExpires, scopes{}, func(p *Parameters) **uint64 { return &p.Expires }, varintValue),
			inSubscribeOK|inPublish|inPublishOK|inUpdateOK|inTrackStatusOK|inNamespaceOK),
		in16(single(ParameterLargestObject, scopes{}, func(p *Parameters) **Location { return &p.LargestObject },
			prefixedValue("largest object", locationValue)), inSubscribeOK|inPublish|inUpdateOK|inTrackStatusOK),
		in16(single(ParameterForward, scopes{}, func(p *Parameters) **bool { return &p.Forward }, boolValue16),
			subscription|inPublish|inSubscribeTracks|inSubscribeNamespace),
		in16(single(ParameterSubscriberPriority, scopes{},
			func(p *Parameters) **uint8 { return &p.SubscriberPriority },
			smallValue[uint8]("subscriber priority", 0, math.MaxUint8)), subscription|inFetch|inUpdateFetch),
		in16(single(ParameterLocationFilter, scopes{}, func(p *Parameters) **Filter { return &p.Filter },
			filterValue), subscription),
		groupOrder16(),
		in16(single(ParameterNewGroupRequest, scopes{}, func(p *Parameters) **uint64 { return &p.NewGroupRequest },
			varintValue), subscription),
	}
}

// groupOrder16 describes GROUP_ORDER. Draft-14 had a third value, 0, for the publisher's order.
func groupOrder16() parameterFormat {
	value := smallValue[GroupOrder]("group order", uint64(Ascending), uint64(Descending))
	f := in16(single(ParameterGroupOrder, scopes{}, func(p *Parameters) **GroupOrder { return &p.GroupOrder }, value),
		inSubscribe|inPublishOK|inFetch)
	decode := f.decode
	f.decode = func(d *decoder, p *Parameters) {
		if d.oldParameters && len(d.b) > 0 && d.b[0] == 0 {
			d.varint()
			return
		}
		decode(d, p)
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
func smallValue[T uint8 | uint64 | GroupOrder](what string, least, most uint64) valueFormat[T] {
	check := func(x uint64) error {
		if x < least || x > most {
			return fmt.Errorf("%s %d: must be %d to %d", what, x, least, most)
		}
		return nil
	}
	return valueFormat[T]{
		func(e *encoder, x T) {
			e.fail(check(uint64(x)))
			e.varint(uint64(x))
		},
		func(d *decoder) T {
			x := d.varint()
			d.check(check(x))
			return T(x)
		},
	}
}

// boolValue16 is the encoding of a number that is 0 or 1.
var boolValue16 = valueFormat[bool]{
	(*encoder).bool,
	func(d *decoder) bool { return smallValue[uint64]("forward", 0, 1).decode(d) == 1 },
}

// prefixedValue is the encoding of a value with its length in front.
func prefixedValue[T any](what string, f valueFormat[T]) valueFormat[T] {
	return valueFormat[T]{
		func(e *encoder, x T) { e.prefixed(func(e *encoder) { f.encode(e, x) }) },
		func(d *decoder) (x T) {
			d.prefixed(what, func(d *decoder) { x = f.decode(d) })
			return x
		},
	}
}

// absoluteFilter is the format of SUBSCRIPTION_FILTER (§5.1.2): as in draft-18, but with an absolute End Group.
var absoluteFilter = valueFormat[Filter]{(*encoder).absoluteFilter, (*decoder).absoluteFilter}

func (e *encoder) absoluteFilter(f Filter) {
	e.fail(f.validate())
	if f.Type == FilterAbsoluteRange {
		f.EndGroupDelta += f.Start.Group
		if f.EndGroupDelta > maxQUICVarint {
			f.Type = FilterAbsoluteStart // no later group exists
		}
	}
	e.writeTypedFilter(f)
}

func (d *decoder) absoluteFilter() Filter {
	f := d.readTypedFilter()
	if f.Type == FilterAbsoluteRange && f.EndGroupDelta < f.Start.Group {
		d.fail(violation("a subscription filter ends in group %d, before its start %s", f.EndGroupDelta, f.Start))
	}
	if f.Type == FilterAbsoluteRange {
		f.EndGroupDelta -= f.Start.Group
	}
	return f
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

func (m *MaxRequestID) encode(e *encoder) { e.varint(m.Max) }

func (m *MaxRequestID) decode(d *decoder) { m.Max = d.varint() }

// RequestsBlocked says that the sender would send a request if it could (§9.6).
type RequestsBlocked struct {
	Max uint64 // the latest one of the receiver
}

// Type implements Message.
func (*RequestsBlocked) Type() MessageType { return MessageRequestsBlocked }

func (m *RequestsBlocked) encode(e *encoder) { e.varint(m.Max) }

func (m *RequestsBlocked) decode(d *decoder) { m.Max = d.varint() }

// FetchCancel ends a FETCH (§9.18).
type FetchCancel struct{}

// Type implements Message.
func (*FetchCancel) Type() MessageType { return MessageFetchCancel }

func (*FetchCancel) encode(e *encoder) { e.request() }

func (*FetchCancel) decode(d *decoder) { d.request() }

// NamespaceWithdrawn is PUBLISH_NAMESPACE_DONE: the publisher withdraws a PUBLISH_NAMESPACE (§9.22).
type NamespaceWithdrawn struct{}

// Type implements Message.
func (*NamespaceWithdrawn) Type() MessageType { return MessageNamespaceWithdrawn }

func (*NamespaceWithdrawn) encode(e *encoder) { e.request() }

func (*NamespaceWithdrawn) decode(d *decoder) { d.request() }

// NamespaceRevoked is PUBLISH_NAMESPACE_CANCEL: the subscriber no longer accepts a PUBLISH_NAMESPACE (§9.24).
type NamespaceRevoked struct {
	Code   RequestErrorCode
	Reason string
}

// Type implements Message.
func (*NamespaceRevoked) Type() MessageType { return MessageNamespaceRevoked }

func (m *NamespaceRevoked) encode(e *encoder) {
	e.request()
	e.varint(uint64(e.wire.former.requestCode(m.Code)))
	e.reason(m.Reason)
}

func (m *NamespaceRevoked) decode(d *decoder) {
	d.request()
	m.Code, m.Reason = RequestErrorCode(d.varint()), d.reason()
}
