package conform

import (
	"slices"

	"sluice/moqt"
)

// params is a short name.
type params = moqt.Parameters

// streamRow is messages on one request stream. The last one breaks a rule.
type streamRow struct {
	section, name string
	messages      func(*trial) []moqt.Message
	want          []moqt.SessionErrorCode // none: any
}

// with returns messages that name nothing of the trial.
func with(m ...moqt.Message) func(*trial) []moqt.Message {
	return func(*trial) []moqt.Message { return m }
}

// after returns messages behind a PUBLISH_NAMESPACE.
func after(m ...moqt.Message) func(*trial) []moqt.Message {
	return func(t *trial) []moqt.Message {
		return slices.Concat([]moqt.Message{&moqt.PublishNamespace{Namespace: t.namespace}}, m)
	}
}

// tokens returns a SUBSCRIBE with tokens.
func tokens(all ...moqt.Token) func(*trial) []moqt.Message {
	return func(t *trial) []moqt.Message {
		return []moqt.Message{&moqt.Subscribe{Track: t.track("x"), Parameters: params{AuthorizationTokens: all}}}
	}
}

func register(value string) moqt.Token {
	return moqt.Token{AliasType: moqt.AliasRegister, Alias: 1, Type: 0x9d, Value: []byte(value)}
}

var streamRows = []streamRow{
	{"10", "second request on a stream", after(&moqt.Subscribe{RequestID: 2}), nil},
	{"10.1", "Request ID of the server's parity", with(&moqt.TrackStatus{RequestID: 1}), invalidID},
	{"10.1", "REQUEST_UPDATE with the ID of its request", after(&moqt.RequestUpdate{}), invalidID},
	{"10.1", "REQUEST_UPDATE with an ID of the server's parity", after(&moqt.RequestUpdate{RequestID: 3}), invalidID},
	{"10.2.2", "alias that is registered twice", tokens(register("a"), register("b")),
		[]moqt.SessionErrorCode{moqt.SessionDuplicateAuthTokenAlias, moqt.SessionAuthTokenCacheOverflow}},
	{"10.2.12", "FORWARD in the update of PUBLISH_NAMESPACE",
		after(&moqt.RequestUpdate{RequestID: 2, Parameters: params{Forward: new(true)}}), violation},
	{"10.2.14", "TRACK_NAMESPACE_PREFIX in the update of PUBLISH_NAMESPACE",
		after(&moqt.RequestUpdate{RequestID: 2, Parameters: params{NamespacePrefix: &moqt.Namespace{"a"}}}), violation},
	{"10.4", "second GOAWAY on a request stream", after(&moqt.Goaway{}, &moqt.Goaway{}), violation},
	{"10.4", "GOAWAY of a client with a URI on a request stream",
		after(&moqt.Goaway{NewSessionURI: "moqt://elsewhere"}), violation},
	{"10.5", "REQUEST_OK to one's own request", after(&moqt.RequestOK{}), nil},
	{"10.11", "PUBLISH_DONE for a namespace", after(&moqt.PublishDone{}), nil},
	{"10.16", "NAMESPACE of a subscriber", with(&moqt.SubscribeNamespace{Prefix: moqt.Namespace{"none"}},
		&moqt.NamespaceAdded{Suffix: moqt.Namespace{"a"}}), nil},
}

var (
	violation = []moqt.SessionErrorCode{violates}
	invalidID = []moqt.SessionErrorCode{moqt.SessionInvalidRequestID}
)

// refusedRow is requests on streams of their own. The last one has to be refused, and the others to be answered.
type refusedRow struct {
	section, name string
	to            moqt.Version
	requests      func(*trial) []moqt.Message
	code          moqt.RequestErrorCode
}

var (
	period    = moqt.FullTrackName{Namespace: moqt.Namespace{"."}, Name: "x"}
	ofSession = moqt.FullTrackName{Namespace: moqt.Namespace{".session"}, Name: "x"}
)

var refusedRows = []refusedRow{
	{"2.5.1", "PUBLISH with an unknown Mandatory Track Property", 0, func(t *trial) []moqt.Message {
		return []moqt.Message{&moqt.Publish{Track: t.track("x"), Properties: properties(0x4000)}}
	}, moqt.RequestUnsupportedExtension},
	{"3.2.1", "SUBSCRIBE in the namespace .", 0, with(&moqt.Subscribe{Track: period}), moqt.RequestDoesNotExist},
	{"3.2.1", "PUBLISH in the namespace .", 0, with(&moqt.Publish{Track: period}), moqt.RequestDoesNotExist},
	{"3.2.1", "TRACK_STATUS in the namespace .", 0, with(&moqt.TrackStatus{Track: period}), moqt.RequestDoesNotExist},
	{"3.2.1", "PUBLISH_NAMESPACE of .", 0, with(&moqt.PublishNamespace{Namespace: period.Namespace}),
		moqt.RequestDoesNotExist},
	{"3.2.1", "SUBSCRIBE_NAMESPACE of .", 0, with(&moqt.SubscribeNamespace{Prefix: period.Namespace}),
		moqt.RequestDoesNotExist},
	{"3.2.1", "SUBSCRIBE_TRACKS of .", 0, with(&moqt.SubscribeTracks{Prefix: period.Namespace}),
		moqt.RequestDoesNotExist},
	{"3.2.2", "SUBSCRIBE in the namespace .session", 0, with(&moqt.Subscribe{Track: ofSession}),
		moqt.RequestDoesNotExist},
	{"3.2.2", "TRACK_STATUS in the namespace .session, without a name", 0,
		with(&moqt.TrackStatus{Track: moqt.FullTrackName{Namespace: ofSession.Namespace}}), moqt.RequestDoesNotExist},
	{"5.1", "second PUBLISH of a track is refused", moqt.Draft18, func(t *trial) []moqt.Message {
		return []moqt.Message{&moqt.Publish{Track: t.track("x"), TrackAlias: 7},
			&moqt.Publish{RequestID: 2, Track: t.track("x"), TrackAlias: 8}}
	}, moqt.RequestDuplicateSubscription},
	{"10.2.6", "SUBSCRIBE without RENDEZVOUS_TIMEOUT, and without a publisher", 0, func(t *trial) []moqt.Message {
		return []moqt.Message{&moqt.Subscribe{Track: t.track("none")}}
	}, moqt.RequestDoesNotExist},
	{"10.12.2", "joining FETCH with the ID of no subscription", moqt.Draft19,
		with(&moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningRequestID: 98}),
		moqt.RequestInvalidJoiningRequestID},
	{"10.18", "SUBSCRIBE_NAMESPACE with a longer prefix", 0, func(t *trial) []moqt.Message {
		return []moqt.Message{&moqt.SubscribeNamespace{Prefix: t.namespace},
			&moqt.SubscribeNamespace{RequestID: 2, Prefix: t.namespace.Join(moqt.Namespace{"a"})}}
	}, moqt.RequestPrefixOverlap},
	{"10.19", "SUBSCRIBE_TRACKS with a shorter prefix", 0, func(t *trial) []moqt.Message {
		return []moqt.Message{&moqt.SubscribeTracks{Prefix: t.namespace.Join(moqt.Namespace{"a"})},
			&moqt.SubscribeTracks{RequestID: 2, Prefix: t.namespace}}
	}, moqt.RequestPrefixOverlap},
}

// properties returns a property that nobody knows.
func properties(typ uint64) moqt.Properties {
	p, err := moqt.NewProperties(moqt.KeyValuePair{Type: typ, Value: 5, Bytes: []byte("\xff\x00")})
	if err != nil {
		panic(err)
	}
	return p
}

func exchangeCases() (cases []Case) {
	add := func(section, name string, run func(*trial)) *Case {
		cases = append(cases, Case{Section: section, Name: name, from: moqt.Draft18, run: run})
		return &cases[len(cases)-1]
	}
	for _, r := range streamRows {
		add(r.section, r.name, func(t *trial) {
			p := join(t)
			p.raw(p.encode(r.messages(t)...))
			p.closes(p.conn, r.want...)
		})
	}
	for _, r := range refusedRows {
		add(r.section, r.name, func(t *trial) { isRefused(join(t), r.requests(t), r.code) }).to = r.to
	}
	for _, r := range uriRows {
		add(r.section, r.name, func(t *trial) {
			p := &peer{trial: t, conn: t.dial()}
			m := t.setup()
			r.change(m)
			p.uni(p.encode(m))
			p.closes(p.conn, r.code)
		}).transport = r.transport
	}
	for _, r := range controlRows {
		add(r.section, r.name, func(t *trial) {
			p := join(t)
			r.do(p)
			p.closes(p.conn, r.code)
		}).to = r.to
	}
	for _, r := range answerRows {
		add(r.section, r.name, func(t *trial) {
			e := r.ask(t)
			e.send(r.messages...)
			e.closes(e.conn, r.want...)
		})
	}
	for _, r := range slices.Concat(rightRows, publisherRows) {
		add(r.section, r.name, r.run).to = r.to
	}
	return cases
}

// isRefused sends requests, and wants the last one refused, and the session to go on.
func isRefused(p *peer, requests []moqt.Message, code moqt.RequestErrorCode) {
	for i, m := range requests {
		e := p.raw(p.encode(m))
		if i == len(requests)-1 {
			e.refused(code)
		} else if m, err := e.receive(); err != nil || m.Type() == moqt.MessageRequestError {
			p.fail("REQUEST_OK to the first request", "%v %v", m, err)
		}
	}
	p.alive()
}

// uriRows are about AUTHORITY and PATH.
var uriRows = []struct {
	section, name, transport string
	change                   func(*moqt.Setup)
	code                     moqt.SessionErrorCode
}{
	{"10.3.1.1", "AUTHORITY that is none", "quic", func(m *moqt.Setup) { m.Authority = new("a b") },
		moqt.SessionMalformedAuthority},
	{"10.3.1.1", "AUTHORITY on WebTransport", "webtransport", func(m *moqt.Setup) { m.Authority = new("a") },
		moqt.SessionInvalidAuthority},
	{"10.3.1.2", "PATH that is none", "quic", func(m *moqt.Setup) { m.Path = new("live") }, moqt.SessionMalformedPath},
	{"10.3.1.2", "PATH with a wrong percent-encoding", "quic", func(m *moqt.Setup) { m.Path = new("/%zz") },
		moqt.SessionMalformedPath},
	{"10.3.1.2", "PATH on WebTransport", "webtransport", func(m *moqt.Setup) { m.Path = new("/") },
		moqt.SessionInvalidPath},
}

// controlRows are about the control stream, and about several streams at once.
var controlRows = []struct {
	section, name string
	to            moqt.Version
	do            func(*peer)
	code          moqt.SessionErrorCode
}{
	{"3.3", "control stream that ends", 0, func(p *peer) { _ = p.control.Close() }, violates},
	{"3.3", "control stream that is reset", 0, func(p *peer) {
		p.alive() // SETUP has arrived: a reset would overtake it
		p.control.CancelWrite(0)
	}, violates},
	{"10.1", "Request ID twice", 0, func(p *peer) {
		p.raw(p.encode(&moqt.PublishNamespace{RequestID: 4, Namespace: p.namespace}))
		p.raw(p.encode(&moqt.TrackStatus{RequestID: 4, Track: p.track("x")}))
	}, moqt.SessionInvalidRequestID},
	{"10.2.2", "token beyond MAX_AUTH_TOKEN_CACHE_SIZE", 0, func(p *peer) {
		const overhead = 16 // of each token in the cache
		length := max(int(p.theirs.MaxAuthTokenCacheSize)-overhead+1, 0)
		if length > moqt.MaxAuthTokenBytes {
			p.fail("a limit that a message can exceed", "%d bytes", p.theirs.MaxAuthTokenCacheSize)
		}
		p.raw(p.encode(tokens(register(string(make([]byte, length))))(p.trial)...))
	}, moqt.SessionAuthTokenCacheOverflow},
	{"10.4", "second GOAWAY", 0, func(p *peer) { goaway(p, moqt.Goaway{}, moqt.Goaway{}) }, violates},
	{"10.4", "GOAWAY of a client with a URI", 0, func(p *peer) {
		goaway(p, moqt.Goaway{NewSessionURI: "moqt://elsewhere"})
	}, violates},
	{"10.4", "GOAWAY with a Request ID of its sender", moqt.Draft18, func(p *peer) {
		_, _ = p.control.Write(p.encode(&moqt.Goaway{RequestID: new(uint64(2))}))
	}, moqt.SessionInvalidRequestID},
	{"11.1", "Track Alias of two tracks", 0, func(p *peer) {
		for i, name := range []string{"a", "b"} {
			e := p.raw(p.encode(&moqt.Publish{RequestID: uint64(2 * i), Track: p.track(name), TrackAlias: 7}))
			if i == 0 {
				expect[*moqt.RequestOK](e)
			}
		}
	}, moqt.SessionDuplicateTrackAlias},
}

// goaway sends messages on the control stream.
func goaway(p *peer, all ...moqt.Goaway) {
	for _, m := range all {
		if p.suite.version == moqt.Draft18 {
			m.RequestID = new(uint64(1))
		}
		_, _ = p.control.Write(p.encode(&m))
	}
}

// ruleRow is a case by its steps.
type ruleRow struct {
	section, name string
	to            moqt.Version
	run           func(*trial)
}

// rightRows are what a relay has to take.
var rightRows = []ruleRow{
	{"10.1", "Request IDs that arrive in another order", 0, func(t *trial) {
		p := join(t)
		for _, id := range []uint64{6, 2} {
			expect[*moqt.RequestOK](p.raw(p.encode(&moqt.PublishNamespace{
				RequestID: id, Namespace: t.namespace.Join(moqt.Namespace{string(rune('a' + id))}),
			})))
		}
	}},
	{"10.3", "unknown Setup Options, repeated, are ignored", 0, func(t *trial) {
		p, m := &peer{trial: t, conn: t.dial()}, t.setup()
		for range 2 {
			m.Unknown = append(m.Unknown, moqt.KeyValuePair{Type: moqt.Grease(0), Bytes: []byte{0xff}})
		}
		p.uni(p.encode(m))
		p.alive()
	}},
	{"10.4", "requests that are open go on after GOAWAY", 0, func(t *trial) {
		p := join(t)
		e := p.raw(p.encode(&moqt.PublishNamespace{Namespace: t.namespace}))
		expect[*moqt.RequestOK](e)
		goaway(p, moqt.Goaway{})
		e.send(&moqt.RequestUpdate{RequestID: 2})
		expect[*moqt.RequestOK](e)
	}},
	{"11.5.1", "padding stream is discarded", 0, func(t *trial) {
		p := join(t)
		_ = p.uni(append(moqt.AppendPaddingStreamType(nil, t.suite.version), make([]byte, 1000)...)).Close()
		p.alive()
	}},
	{"11.5.2", "padding datagram is discarded", 0, func(t *trial) {
		p := join(t)
		t.must(p.conn.SendDatagram(moqt.AppendPaddingDatagram(nil, t.suite.version, 100)), "a datagram can be sent")
		p.alive()
	}},
}
