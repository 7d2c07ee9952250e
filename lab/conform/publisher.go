package conform

import "sluice/moqt"

// answerRow is how a client answers a request of the relay: the last message breaks a rule.
type answerRow struct {
	section, name string
	ask           func(*trial) *exchange // a request of the relay at a client
	messages      []moqt.Message
	want          []moqt.SessionErrorCode // none: any
}

var answerRows = []answerRow{
	{"5.1", "second SUBSCRIBE_OK", askedToPublish,
		[]moqt.Message{&moqt.SubscribeOK{TrackAlias: 7}, &moqt.SubscribeOK{TrackAlias: 7}}, nil},
	{"5.1", "REQUEST_ERROR after SUBSCRIBE_OK", askedToPublish,
		[]moqt.Message{&moqt.SubscribeOK{TrackAlias: 7}, &moqt.RequestError{}}, nil},
	{"5.1", "PUBLISH_DONE in place of SUBSCRIBE_OK", askedToPublish, []moqt.Message{&moqt.PublishDone{}}, nil},
	{"5.1", "FETCH_OK to SUBSCRIBE", askedToPublish, []moqt.Message{&moqt.FetchOK{}}, nil},
	{"10.5", "REQUEST_OK to SUBSCRIBE", askedToPublish, []moqt.Message{&moqt.RequestOK{}}, nil},
	{"10.6.1", "redirect of a relay to a URI", askedToPublish, []moqt.Message{
		&moqt.RequestError{Code: moqt.RequestRedirect, Redirect: &moqt.Redirect{URI: "moqt://elsewhere"}},
	}, violation},
	{"5.1", "SUBSCRIBE_OK to PUBLISH", offered, []moqt.Message{&moqt.SubscribeOK{}}, nil},
	{"5.1", "second PUBLISH_OK", offered, []moqt.Message{&moqt.RequestOK{}, &moqt.RequestOK{}}, nil},
	{"10.5", "Track Properties in PUBLISH_OK", offered,
		[]moqt.Message{&moqt.RequestOK{Properties: properties(0x3e)}}, violation},
	{"10.11", "PUBLISH_DONE of a subscriber", offered,
		[]moqt.Message{&moqt.RequestOK{}, &moqt.PublishDone{}}, nil},
	{"10.13", "FETCH_OK that ends before the FETCH starts", askedForThePast,
		[]moqt.Message{&moqt.FetchOK{End: moqt.Location{Group: 4, Object: 1}}}, violation},
}

// publisherRows are the other cases with a client that publishes.
var publisherRows = []ruleRow{
	{"2.5.1", "unknown Mandatory Track Property in SUBSCRIBE_OK", 0, func(t *trial) {
		at, by := ask[*moqt.Subscribe](announced(t), &moqt.Subscribe{Track: t.track("x")})
		at.send(&moqt.SubscribeOK{TrackAlias: 7, Properties: properties(0x4000)})
		by.refused(moqt.RequestUnsupportedExtension)
		at.alive()
	}},
	{"5.1", "second SUBSCRIBE to a track is refused", moqt.Draft18, func(t *trial) {
		at, by := ask[*moqt.Subscribe](announced(t), &moqt.Subscribe{Track: t.track("x")})
		at.send(&moqt.SubscribeOK{TrackAlias: 7})
		expect[*moqt.SubscribeOK](by)
		by.raw(by.encode(&moqt.Subscribe{RequestID: 2, Track: t.track("x")})).refused(moqt.RequestDuplicateSubscription)
	}},
	{"9.5", "violation of a publisher ends no other session", 0, func(t *trial) {
		at, by := ask[*moqt.Subscribe](announced(t), &moqt.Subscribe{Track: t.track("x")})
		at.send(&moqt.FetchOK{})
		at.closes(at.conn)
		by.alive()
	}},
	{"11.1", "SUBSCRIBE_OK with the Track Alias of another track", 0, func(t *trial) {
		p := announced(t)
		for _, name := range []string{"a", "b"} {
			at, by := ask[*moqt.Subscribe](p, &moqt.Subscribe{Track: t.track(name)})
			at.send(&moqt.SubscribeOK{TrackAlias: 7})
			if name == "a" {
				expect[*moqt.SubscribeOK](by)
			}
		}
		p.closes(p.conn, moqt.SessionDuplicateTrackAlias)
	}},
	{"14", "unknown code of REQUEST_ERROR", 0, func(t *trial) {
		at, by := ask[*moqt.Subscribe](announced(t), &moqt.Subscribe{Track: t.track("x")})
		at.send(&moqt.RequestError{Code: moqt.RequestErrorCode(moqt.Grease(3))})
		expect[*moqt.RequestError](by)
		at.alive()
	}},
}

// announced returns a client that has announced the trial's namespace.
func announced(t *trial) *peer {
	p := join(t)
	expect[*moqt.RequestOK](p.raw(p.encode(&moqt.PublishNamespace{Namespace: t.namespace})))
	return p
}

// ask has another client send a request, which the relay has to pass on to the publisher.
func ask[M moqt.Message](publisher *peer, m moqt.Message) (at, by *exchange) {
	t := publisher.trial
	q := join(t)
	by = q.raw(q.encode(m))
	return accept[M](publisher), by
}

// askedToPublish returns a SUBSCRIBE of the relay.
func askedToPublish(t *trial) *exchange {
	at, _ := ask[*moqt.Subscribe](announced(t), &moqt.Subscribe{Track: t.track("x")})
	return at
}

// askedForThePast returns a FETCH of the relay.
func askedForThePast(t *trial) *exchange {
	at, _ := ask[*moqt.Fetch](announced(t), &moqt.Fetch{
		FetchType: moqt.FetchStandalone, Track: t.track("x"), Start: moqt.Location{Group: 5, Object: 3},
		End: moqt.Location{Group: 9},
	})
	return at
}

// offered returns a PUBLISH of the relay.
func offered(t *trial) *exchange {
	p := join(t)
	expect[*moqt.RequestOK](p.raw(p.encode(&moqt.SubscribeTracks{Prefix: t.namespace})))
	q := join(t)
	q.raw(q.encode(&moqt.Publish{Track: t.track("x"), TrackAlias: 7}))
	return accept[*moqt.Publish](p)
}

// published returns a client whose track has the alias 7, and a subscriber.
func published(t *trial) *peer {
	at, by := ask[*moqt.Subscribe](announced(t), &moqt.Subscribe{Track: t.track("x")})
	at.send(&moqt.SubscribeOK{TrackAlias: 7})
	expect[*moqt.SubscribeOK](by)
	t.running.Go(func() { // updates have to be answered
		for {
			if m, err := at.receive(); err != nil {
				return
			} else if m.Type() == moqt.MessageRequestUpdate {
				at.send(&moqt.RequestOK{})
			}
		}
	})
	return at.peer
}
