package moqt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestContextViolations has a row for each case in which the draft closes the session because of the place where a
// control message was received.
func TestContextViolations(t *testing.T) {
	const violation = SessionProtocolViolation
	setup := Context{Stream: MessageSetup, Server: true}
	ok := func(p Parameters) *RequestOK { return &RequestOK{Parameters: p} }
	update := func(p Parameters) *RequestUpdate { return &RequestUpdate{Parameters: p} }
	prefix := Parameters{NamespacePrefix: &Namespace{}}
	filter := Parameters{Filter: &Filter{Type: FilterLargestObject}}
	properties := Properties{0x04, 0x05}
	on := func(stream MessageType) Context { return Context{Stream: stream, FromResponder: true} }
	from := func(stream MessageType) Context { return Context{Stream: stream} }
	answers := func(stream, request MessageType) Context {
		return Context{Stream: stream, FromResponder: true, Answers: request}
	}
	redirect := func(uri, name string) *RequestError {
		return &RequestError{Code: RequestRedirect, Redirect: &Redirect{URI: uri, Track: FullTrackName{Name: name}}}
	}
	for _, tc := range []struct {
		section string
		name    string
		context Context
		message Message
		want    SessionErrorCode
	}{
		// First messages of bidirectional streams.
		{"3.3", "REQUEST_OK opens a stream", Context{}, &RequestOK{}, violation},
		{"3.3", "SETUP opens a request stream", Context{}, &Setup{}, violation},
		{"3.3", "GOAWAY opens a request stream", Context{}, &Goaway{}, violation},
		{"3.3", "NAMESPACE opens a request stream", Context{}, &NamespaceAdded{}, violation},
		// The column "Stream" of the table of messages.
		{"10", "SUBSCRIBE on the control stream", setup, &Subscribe{}, violation},
		{"10", "REQUEST_UPDATE on the control stream", setup, &RequestUpdate{}, violation},
		{"10", "SETUP on a request stream", from(MessageSubscribe), &Setup{}, violation},
		{"10", "second SUBSCRIBE", from(MessageSubscribe), &Subscribe{}, violation},
		{"10.8", "SUBSCRIBE_OK to PUBLISH", on(MessagePublish), &SubscribeOK{}, violation},
		{"10.8", "SUBSCRIBE_OK of the subscriber", from(MessageSubscribe), &SubscribeOK{}, violation},
		{"10.13", "FETCH_OK to SUBSCRIBE", on(MessageSubscribe), &FetchOK{}, violation},
		{"10.11", "PUBLISH_DONE of the subscriber", from(MessageSubscribe), &PublishDone{}, violation},
		{"10.11", "PUBLISH_DONE of the subscriber of a PUBLISH", on(MessagePublish), &PublishDone{}, violation},
		{"10.11", "PUBLISH_DONE to FETCH", on(MessageFetch), &PublishDone{}, violation},
		{"10.16", "NAMESPACE to SUBSCRIBE_TRACKS", on(MessageSubscribeTracks), &NamespaceAdded{}, violation},
		{"10.16", "NAMESPACE to SUBSCRIBE", on(MessageSubscribe), &NamespaceAdded{}, violation},
		{"10.16", "NAMESPACE of the subscriber", from(MessageSubscribeNamespace), &NamespaceAdded{}, violation},
		{"10.17", "NAMESPACE_DONE to SUBSCRIBE", on(MessageSubscribe), &NamespaceDone{}, violation},
		{"10.20", "PUBLISH_BLOCKED to SUBSCRIBE_NAMESPACE", on(MessageSubscribeNamespace), &PublishBlocked{},
			violation},
		{"10.9", "REQUEST_UPDATE of the publisher of a SUBSCRIBE", on(MessageSubscribe), &RequestUpdate{}, violation},
		{"10.9", "REQUEST_UPDATE of the responder", on(MessagePublishNamespace), &RequestUpdate{}, violation},
		{"10.14", "REQUEST_UPDATE of TRACK_STATUS", from(MessageTrackStatus), &RequestUpdate{}, violation},
		{"10.5", "REQUEST_OK to SUBSCRIBE", on(MessageSubscribe), &RequestOK{}, violation},
		{"10.5", "REQUEST_OK to FETCH", on(MessageFetch), &RequestOK{}, violation},
		// REQUEST_OK by the answered message.
		{"10.5", "properties in PUBLISH_OK", on(MessagePublish), &RequestOK{Properties: properties}, violation},
		{"10.5", "properties in REQUEST_UPDATE_OK", answers(MessageSubscribe, MessageRequestUpdate),
			&RequestOK{Properties: properties}, violation},
		{"10.5", "properties in SUBSCRIBE_NAMESPACE_OK", on(MessageSubscribeNamespace),
			&RequestOK{Properties: properties}, violation},
		{"10.5", "properties in PUBLISH_NAMESPACE_OK", on(MessagePublishNamespace),
			&RequestOK{Properties: properties}, violation},
		{"10.2.11", "LARGEST_OBJECT in PUBLISH_OK", on(MessagePublish),
			ok(Parameters{LargestObject: &Location{}}), violation},
		{"10.2.12", "FORWARD in REQUEST_UPDATE_OK", answers(MessagePublish, MessageRequestUpdate),
			ok(Parameters{Forward: new(true)}), violation},
		{"10.2.12", "FORWARD in TRACK_STATUS_OK", on(MessageTrackStatus), ok(Parameters{Forward: new(true)}),
			violation},
		{"10.2.10", "EXPIRES in PUBLISH_NAMESPACE_OK", on(MessagePublishNamespace),
			ok(Parameters{Expires: new(uint64(1))}), violation},
		{"10.2.10", "EXPIRES in SUBSCRIBE_TRACKS_OK", on(MessageSubscribeTracks),
			ok(Parameters{Expires: new(uint64(1))}), violation},
		// REQUEST_UPDATE by the updated request.
		{"10.2.14", "TRACK_NAMESPACE_PREFIX for SUBSCRIBE", from(MessageSubscribe), update(prefix), violation},
		{"10.2.14", "TRACK_NAMESPACE_PREFIX for PUBLISH_NAMESPACE", from(MessagePublishNamespace), update(prefix),
			violation},
		{"10.2.9", "SUBSCRIPTION_FILTER for FETCH", from(MessageFetch), update(filter), violation},
		{"10.2.9", "SUBSCRIPTION_FILTER for SUBSCRIBE_TRACKS", from(MessageSubscribeTracks), update(filter), violation},
		{"10.2.7", "SUBSCRIBER_PRIORITY for PUBLISH_NAMESPACE", from(MessagePublishNamespace),
			update(Parameters{SubscriberPriority: new(uint8(1))}), violation},
		{"10.2.12", "FORWARD for SUBSCRIBE_TRACKS", from(MessageSubscribeTracks),
			update(Parameters{Forward: new(true)}), violation},
		{"10.2.13", "NEW_GROUP_REQUEST for FETCH", from(MessageFetch),
			update(Parameters{NewGroupRequest: new(uint64(1))}), violation},
		// SETUP.
		{"10.2.2", "DELETE in SETUP of a client", setup,
			&Setup{AuthorizationTokens: []Token{{AliasType: AliasDelete}}}, violation},
		{"10.2.2", "USE_ALIAS in SETUP of a client", setup,
			&Setup{AuthorizationTokens: []Token{{AliasType: AliasUse}}}, violation},
		{"10.3.1.1", "AUTHORITY of a server", Context{Stream: MessageSetup},
			&Setup{Authority: new("a")}, SessionInvalidAuthority},
		{"10.3.1.1", "AUTHORITY on WebTransport", Context{Stream: MessageSetup, Server: true, WebTransport: true},
			&Setup{Authority: new("a")}, SessionInvalidAuthority},
		{"10.3.1.2", "PATH of a server", Context{Stream: MessageSetup}, &Setup{Path: new("/")}, SessionInvalidPath},
		{"10.3.1.2", "PATH on WebTransport", Context{Stream: MessageSetup, Server: true, WebTransport: true},
			&Setup{Path: new("/")}, SessionInvalidPath},
		// GOAWAY.
		{"10.4", "URI of a client", setup, &Goaway{NewSessionURI: "moqt://a"}, violation},
		{"10.4", "request id on a request stream", from(MessageSubscribe), &Goaway{RequestID: new(uint64(0))},
			violation},
		{"10.4", "odd request id at a client", Context{Stream: MessageSetup},
			&Goaway{RequestID: new(uint64(1))}, SessionInvalidRequestID},
		{"10.4", "even request id at a server", setup, &Goaway{RequestID: new(uint64(2))}, SessionInvalidRequestID},
		// Redirect.
		{"10.6.1", "connect URI of a client", Context{Stream: MessageSubscribe, FromResponder: true, Server: true},
			redirect("moqt://a", ""), violation},
		{"10.6.1", "track name to SUBSCRIBE_NAMESPACE", on(MessageSubscribeNamespace), redirect("", "x"), violation},
		{"10.6.1", "track name to PUBLISH_NAMESPACE", on(MessagePublishNamespace), redirect("", "x"), violation},
	} {
		t.Run(tc.section+" "+tc.name, func(t *testing.T) {
			requireCode(t, tc.want, tc.context.Check(Draft18, tc.message))
		})
	}
	tracks := on(MessageSubscribeTracks)
	require.NoError(t, tracks.Check(Draft18, redirect("", "x")))
	requireCode(t, violation, tracks.Check(Draft19, redirect("", "x")))
}

func TestContextAccepts(t *testing.T) {
	on := func(stream MessageType) Context { return Context{Stream: stream, FromResponder: true} }
	updated := Context{Stream: MessageSubscribe, FromResponder: true, Answers: MessageRequestUpdate}
	all := Parameters{Expires: new(uint64(1)), LargestObject: &Location{}}
	for _, tc := range []struct {
		name    string
		context Context
		message Message
	}{
		{"SETUP of a client", Context{Stream: MessageSetup, Server: true}, &Setup{
			Path: new("/"), Authority: new("a:443"),
			AuthorizationTokens: []Token{{AliasType: AliasRegister}, {AliasType: AliasUseValue}},
		}},
		{"SETUP of a server", Context{Stream: MessageSetup}, &Setup{Implementation: "x"}},
		{"GOAWAY of a server", Context{Stream: MessageSetup}, &Goaway{NewSessionURI: "x", RequestID: new(uint64(2))}},
		{"GOAWAY of a client", Context{Stream: MessageSetup, Server: true}, &Goaway{RequestID: new(uint64(1))}},
		{"GOAWAY without request id", Context{Stream: MessageSetup, Server: true}, &Goaway{}},
		{"GOAWAY on a request stream", on(MessageFetch), &Goaway{NewSessionURI: "x"}},
		{"SUBSCRIBE first", Context{}, &Subscribe{}},
		{"TRACK_STATUS first", Context{}, &TrackStatus{}},
		{"SUBSCRIBE_OK", on(MessageSubscribe), &SubscribeOK{}},
		{"UNSUBSCRIBE", Context{Stream: MessageSubscribe}, &Unsubscribe{}},
		{"PUBLISH_DONE to SUBSCRIBE", on(MessageSubscribe), &PublishDone{}},
		{"PUBLISH_DONE after PUBLISH", Context{Stream: MessagePublish}, &PublishDone{}},
		{"PUBLISH_OK", on(MessagePublish),
			&RequestOK{Parameters: Parameters{Filter: &Filter{Type: FilterLargestObject}}}},
		{"TRACK_STATUS_OK", on(MessageTrackStatus), &RequestOK{Parameters: all, Properties: Properties{4, 5}}},
		{"REQUEST_UPDATE_OK", updated, &RequestOK{Parameters: all}},
		{"REQUEST_UPDATE_OK of a publisher", Context{Stream: MessagePublish, Answers: MessageRequestUpdate},
			&RequestOK{}},
		{"REQUEST_UPDATE of a subscriber to a PUBLISH", on(MessagePublish),
			&RequestUpdate{Parameters: Parameters{Forward: new(true)}}},
		{"REQUEST_UPDATE of FETCH", Context{Stream: MessageFetch},
			&RequestUpdate{Parameters: Parameters{SubscriberPriority: new(uint8(1))}}},
		{"REQUEST_UPDATE of SUBSCRIBE_TRACKS", Context{Stream: MessageSubscribeTracks},
			&RequestUpdate{Parameters: Parameters{NamespacePrefix: &Namespace{}}}},
		{"REQUEST_UPDATE of PUBLISH_NAMESPACE", Context{Stream: MessagePublishNamespace},
			&RequestUpdate{Parameters: Parameters{AuthorizationTokens: []Token{{}}}}},
		{"NAMESPACE", on(MessageSubscribeNamespace), &NamespaceAdded{}},
		{"PUBLISH_BLOCKED", on(MessageSubscribeTracks), &PublishBlocked{}},
		{"REQUEST_ERROR", on(MessageTrackStatus), &RequestError{}},
		{"redirect of a track", on(MessageSubscribe), &RequestError{
			Code: RequestRedirect, Redirect: &Redirect{URI: "moqt://a", Track: FullTrackName{Name: "x"}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.NoError(t, tc.context.Check(Draft18, tc.message))
		})
	}
}

func TestSetupURISyntax(t *testing.T) {
	server := Context{Stream: MessageSetup, Server: true}
	for path, ok := range map[string]bool{
		"": true, "/": true, "/a/b": true, "/a//b": true, "?q": true, "/a?q=/?": true,
		"/%09%af%AF%90%fa%FA": true, "/%41~!$&'()*+,;=:@-._": true,
		"/%4g": false, "/%4G": false, "/%/0": false, "/%:0": false, "/%4": false, "/%zz": false,
		"a": false, "/a b": false, "/a#f": false, "/é": false, "/a\x00": false, "/[": false, "/a?q#": false,
	} {
		err := server.Check(Draft18, &Setup{Path: new(path)})
		if ok {
			require.NoError(t, err, path)
		} else {
			requireCode(t, SessionMalformedPath, err)
		}
	}
	for authority, ok := range map[string]bool{
		"a": true, "a.example:443": true, "127.0.0.1:1": true, "[::1]:443": true, "user@a": true, "a:": true,
		"": false, ":443": false, "a/b": false, "a b": false, "a:b": false, "[::1": false, "a?q": false, "a#f": false,
		"user@": false, "%zz": false,
	} {
		err := server.Check(Draft18, &Setup{Authority: new(authority)})
		if ok {
			require.NoError(t, err, authority)
		} else {
			requireCode(t, SessionMalformedAuthority, err)
		}
	}
}
