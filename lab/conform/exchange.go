package conform

import (
	"slices"

	"sluice/moqt"
	"sluice/transport"
)

// params is a short name.
type params = moqt.Parameters

// rule is a case of drafts since 18.
func rule(section, name string, run func(*trial)) Case {
	return Case{Section: section, Name: name, from: moqt.Draft18, run: run}
}

// until returns the case without later drafts.
func (c Case) until(v moqt.Version) Case {
	c.to = v
	return c
}

// on returns the case as one of a transport alone.
func (c Case) on(kind transport.Kind) Case {
	c.transport = kind.String()
	return c
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

var (
	violation = []moqt.SessionErrorCode{violates}
	invalidID = []moqt.SessionErrorCode{moqt.SessionInvalidRequestID}
)

// breaks sends messages on one request stream. The last one breaks a rule. Without codes, any will do.
func breaks(messages func(*trial) []moqt.Message, codes []moqt.SessionErrorCode) func(*trial) {
	return func(t *trial) {
		p := join(t)
		p.raw(p.encode(messages(t)...))
		p.closes(p.conn, codes...)
	}
}

// refuses sends requests on streams of their own. The last one has to be refused, and the others to be answered; the
// session has to go on.
func refuses(requests func(*trial) []moqt.Message, code moqt.RequestErrorCode) func(*trial) {
	return func(t *trial) {
		p, all := join(t), requests(t)
		for i, m := range all {
			e := p.raw(p.encode(m))
			if i == len(all)-1 {
				e.refused(code)
			} else if m, err := e.receive(); err != nil || m.Type() == moqt.MessageRequestError {
				p.fail("REQUEST_OK to the first request", "%v %v", m, err)
			}
		}
		p.alive()
	}
}

// setsUp sends a SETUP that breaks a rule.
func setsUp(change func(*moqt.Setup), code moqt.SessionErrorCode) func(*trial) {
	return func(t *trial) {
		p, m := &peer{trial: t, conn: t.dial()}, t.setup()
		change(m)
		p.uni(p.encode(m))
		p.closes(p.conn, code)
	}
}

// misuses breaks a rule about the control stream, or about several streams at once.
func misuses(do func(*peer), code moqt.SessionErrorCode) func(*trial) {
	return func(t *trial) {
		p := join(t)
		do(p)
		p.closes(p.conn, code)
	}
}

var (
	period    = moqt.FullTrackName{Namespace: moqt.Namespace{"."}, Name: "x"}
	ofSession = moqt.FullTrackName{Namespace: moqt.Namespace{".session"}, Name: "x"}
)

var exchangeCases = []Case{
	rule("10", "second request on a stream", breaks(after(&moqt.Subscribe{RequestID: 2}), nil)),
	rule("10.1", "Request ID of the server's parity", breaks(with(&moqt.TrackStatus{RequestID: 1}), invalidID)),
	rule("10.1", "REQUEST_UPDATE with the ID of its request", breaks(after(&moqt.RequestUpdate{}), invalidID)),
	rule("10.1", "REQUEST_UPDATE with an ID of the server's parity",
		breaks(after(&moqt.RequestUpdate{RequestID: 3}), invalidID)),
	rule("10.2.2", "alias that is registered twice", breaks(tokens(register("a"), register("b")),
		[]moqt.SessionErrorCode{moqt.SessionDuplicateAuthTokenAlias, moqt.SessionAuthTokenCacheOverflow})),
	rule("10.2.12", "FORWARD in the update of PUBLISH_NAMESPACE",
		breaks(after(&moqt.RequestUpdate{RequestID: 2, Parameters: params{Forward: new(true)}}), violation)),
	rule("10.2.14", "TRACK_NAMESPACE_PREFIX in the update of PUBLISH_NAMESPACE", breaks(
		after(&moqt.RequestUpdate{RequestID: 2, Parameters: params{NamespacePrefix: &moqt.Namespace{"a"}}}),
		violation)),
	rule("10.4", "second GOAWAY on a request stream", breaks(after(&moqt.Goaway{}, &moqt.Goaway{}), violation)),
	rule("10.4", "GOAWAY of a client with a URI on a request stream",
		breaks(after(&moqt.Goaway{NewSessionURI: "moqt://elsewhere"}), violation)),
	rule("10.5", "REQUEST_OK to one's own request", breaks(after(&moqt.RequestOK{}), nil)),
	rule("10.11", "PUBLISH_DONE for a namespace", breaks(after(&moqt.PublishDone{}), nil)),
	rule("10.16", "NAMESPACE of a subscriber", breaks(with(&moqt.SubscribeNamespace{Prefix: moqt.Namespace{"none"}},
		&moqt.NamespaceAdded{Suffix: moqt.Namespace{"a"}}), nil)),

	rule("2.5.1", "PUBLISH with an unknown Mandatory Track Property", refuses(func(t *trial) []moqt.Message {
		return []moqt.Message{&moqt.Publish{Track: t.track("x"), Properties: properties(0x4000)}}
	}, moqt.RequestUnsupportedExtension)),
	rule("3.2.1", "SUBSCRIBE in the namespace .", refuses(with(&moqt.Subscribe{Track: period}),
		moqt.RequestDoesNotExist)),
	rule("3.2.1", "PUBLISH in the namespace .", refuses(with(&moqt.Publish{Track: period}), moqt.RequestDoesNotExist)),
	rule("3.2.1", "TRACK_STATUS in the namespace .", refuses(with(&moqt.TrackStatus{Track: period}),
		moqt.RequestDoesNotExist)),
	rule("3.2.1", "PUBLISH_NAMESPACE of .", refuses(with(&moqt.PublishNamespace{Namespace: period.Namespace}),
		moqt.RequestDoesNotExist)),
	rule("3.2.1", "SUBSCRIBE_NAMESPACE of .", refuses(with(&moqt.SubscribeNamespace{Prefix: period.Namespace}),
		moqt.RequestDoesNotExist)),
	rule("3.2.1", "SUBSCRIBE_TRACKS of .", refuses(with(&moqt.SubscribeTracks{Prefix: period.Namespace}),
		moqt.RequestDoesNotExist)),
	rule("3.2.2", "SUBSCRIBE in the namespace .session", refuses(with(&moqt.Subscribe{Track: ofSession}),
		moqt.RequestDoesNotExist)),
	rule("3.2.2", "TRACK_STATUS in the namespace .session, without a name", refuses(
		with(&moqt.TrackStatus{Track: moqt.FullTrackName{Namespace: ofSession.Namespace}}), moqt.RequestDoesNotExist)),
	rule("5.1", "second PUBLISH of a track is refused", refuses(func(t *trial) []moqt.Message {
		return []moqt.Message{&moqt.Publish{Track: t.track("x"), TrackAlias: 7},
			&moqt.Publish{RequestID: 2, Track: t.track("x"), TrackAlias: 8}}
	}, moqt.RequestDuplicateSubscription)).until(moqt.Draft18),
	rule("10.2.6", "SUBSCRIBE without RENDEZVOUS_TIMEOUT, and without a publisher",
		refuses(func(t *trial) []moqt.Message {
			return []moqt.Message{&moqt.Subscribe{Track: t.track("none")}}
		}, moqt.RequestDoesNotExist)),
	rule("10.12.2", "joining FETCH with the ID of no subscription", refuses(
		with(&moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningRequestID: 98}),
		moqt.RequestInvalidJoiningRequestID)).until(moqt.Draft19),
	rule("10.18", "SUBSCRIBE_NAMESPACE with a longer prefix", refuses(func(t *trial) []moqt.Message {
		return []moqt.Message{&moqt.SubscribeNamespace{Prefix: t.namespace},
			&moqt.SubscribeNamespace{RequestID: 2, Prefix: t.below("a")}}
	}, moqt.RequestPrefixOverlap)),
	rule("10.19", "SUBSCRIBE_TRACKS with a shorter prefix", refuses(func(t *trial) []moqt.Message {
		return []moqt.Message{&moqt.SubscribeTracks{Prefix: t.below("a")},
			&moqt.SubscribeTracks{RequestID: 2, Prefix: t.namespace}}
	}, moqt.RequestPrefixOverlap)),

	rule("10.3.1.1", "AUTHORITY that is none", setsUp(func(m *moqt.Setup) { m.Authority = new("a b") },
		moqt.SessionMalformedAuthority)).on(transport.RawQUIC),
	rule("10.3.1.1", "AUTHORITY on WebTransport", setsUp(func(m *moqt.Setup) { m.Authority = new("a") },
		moqt.SessionInvalidAuthority)).on(transport.WebTransport),
	rule("10.3.1.2", "PATH that is none", setsUp(func(m *moqt.Setup) { m.Path = new("live") },
		moqt.SessionMalformedPath)).on(transport.RawQUIC),
	rule("10.3.1.2", "PATH with a wrong percent-encoding", setsUp(func(m *moqt.Setup) { m.Path = new("/%zz") },
		moqt.SessionMalformedPath)).on(transport.RawQUIC),
	rule("10.3.1.2", "PATH on WebTransport", setsUp(func(m *moqt.Setup) { m.Path = new("/") },
		moqt.SessionInvalidPath)).on(transport.WebTransport),

	rule("3.3", "control stream that ends", misuses(func(p *peer) { _ = p.control.Close() }, violates)),
	rule("3.3", "control stream that is reset", misuses(func(p *peer) {
		p.alive() // SETUP has arrived: a reset would overtake it
		p.control.CancelWrite(0)
	}, violates)),
	rule("10.1", "Request ID twice", misuses(func(p *peer) {
		p.raw(p.encode(&moqt.PublishNamespace{RequestID: 4, Namespace: p.namespace}))
		p.raw(p.encode(&moqt.TrackStatus{RequestID: 4, Track: p.track("x")}))
	}, moqt.SessionInvalidRequestID)),
	rule("10.2.2", "token beyond MAX_AUTH_TOKEN_CACHE_SIZE", misuses(func(p *peer) {
		const overhead = 16 // of each token in the cache
		length := max(int(p.theirs.MaxAuthTokenCacheSize)-overhead+1, 0)
		if length > moqt.MaxAuthTokenBytes {
			p.fail("a limit that a message can exceed", "%d bytes", p.theirs.MaxAuthTokenCacheSize)
		}
		p.raw(p.encode(tokens(register(string(make([]byte, length))))(p.trial)...))
	}, moqt.SessionAuthTokenCacheOverflow)),
	rule("10.4", "second GOAWAY", misuses(func(p *peer) { goaway(p, moqt.Goaway{}, moqt.Goaway{}) }, violates)),
	rule("10.4", "GOAWAY of a client with a URI", misuses(func(p *peer) {
		goaway(p, moqt.Goaway{NewSessionURI: "moqt://elsewhere"})
	}, violates)),
	rule("10.4", "GOAWAY with a Request ID of its sender", misuses(func(p *peer) {
		_, _ = p.control.Write(p.encode(&moqt.Goaway{RequestID: new(uint64(2))}))
	}, moqt.SessionInvalidRequestID)).until(moqt.Draft18),
	rule("11.1", "Track Alias of two tracks", misuses(func(p *peer) {
		for i, name := range []string{"a", "b"} {
			e := p.raw(p.encode(&moqt.Publish{RequestID: uint64(2 * i), Track: p.track(name), TrackAlias: 7}))
			if i == 0 {
				expect[*moqt.RequestOK](e)
			}
		}
	}, moqt.SessionDuplicateTrackAlias)),
}

// properties returns a property that nobody knows.
func properties(typ uint64) moqt.Properties {
	p, err := moqt.NewProperties(moqt.KeyValuePair{Type: typ, Value: 5, Bytes: []byte("\xff\x00")})
	if err != nil {
		panic(err)
	}
	return p
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

// rightCases are what a relay has to take.
var rightCases = []Case{
	rule("10.1", "Request IDs that arrive in another order", func(t *trial) {
		p := join(t)
		for _, id := range []uint64{6, 2} {
			expect[*moqt.RequestOK](p.raw(p.encode(&moqt.PublishNamespace{
				RequestID: id, Namespace: t.below(string(rune('a' + id))),
			})))
		}
	}),
	rule("10.3", "unknown Setup Options, repeated, are ignored", func(t *trial) {
		p, m := &peer{trial: t, conn: t.dial()}, t.setup()
		for range 2 {
			m.Unknown = append(m.Unknown, moqt.KeyValuePair{Type: moqt.Grease(0), Bytes: []byte{0xff}})
		}
		p.uni(p.encode(m))
		p.alive()
	}),
	rule("10.4", "requests that are open go on after GOAWAY", func(t *trial) {
		p := join(t)
		e := p.raw(p.encode(&moqt.PublishNamespace{Namespace: t.namespace}))
		expect[*moqt.RequestOK](e)
		goaway(p, moqt.Goaway{})
		e.send(&moqt.RequestUpdate{RequestID: 2})
		expect[*moqt.RequestOK](e)
	}),
	rule("11.5.1", "padding stream is discarded", func(t *trial) {
		p := join(t)
		_ = p.uni(append(moqt.AppendPaddingStreamType(nil, t.suite.version), make([]byte, 1000)...)).Close()
		p.alive()
	}),
	rule("11.5.2", "padding datagram is discarded", func(t *trial) {
		p := join(t)
		t.must(p.conn.SendDatagram(moqt.AppendPaddingDatagram(nil, t.suite.version, 100)), "a datagram can be sent")
		p.alive()
	}),
}
