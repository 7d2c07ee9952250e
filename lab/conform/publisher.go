package conform

import "sluice/moqt"

// answers sends answers to a request of the relay at a client. The last one breaks a rule. Without codes, any will do.
func answers(ask func(*trial) *exchange, codes []moqt.SessionErrorCode, messages ...moqt.Message) func(*trial) {
	return func(t *trial) {
		e := ask(t)
		e.send(messages...)
		e.closes(e.conn, codes...)
	}
}

var answerCases = []Case{
	rule("5.1", "second SUBSCRIBE_OK",
		answers(askedToPublish, nil, &moqt.SubscribeOK{TrackAlias: 7}, &moqt.SubscribeOK{TrackAlias: 7})),
	rule("5.1", "REQUEST_ERROR after SUBSCRIBE_OK",
		answers(askedToPublish, nil, &moqt.SubscribeOK{TrackAlias: 7}, &moqt.RequestError{})),
	rule("5.1", "PUBLISH_DONE in place of SUBSCRIBE_OK", answers(askedToPublish, nil, &moqt.PublishDone{})),
	rule("5.1", "FETCH_OK to SUBSCRIBE", answers(askedToPublish, nil, &moqt.FetchOK{})),
	rule("10.5", "REQUEST_OK to SUBSCRIBE", answers(askedToPublish, nil, &moqt.RequestOK{})),
	rule("10.6.1", "redirect of a relay to a URI", answers(askedToPublish, violation,
		&moqt.RequestError{Code: moqt.RequestRedirect, Redirect: &moqt.Redirect{URI: "moqt://elsewhere"}})),
	rule("5.1", "SUBSCRIBE_OK to PUBLISH", answers(offered, nil, &moqt.SubscribeOK{})),
	rule("5.1", "second PUBLISH_OK", answers(offered, nil, &moqt.RequestOK{}, &moqt.RequestOK{})),
	rule("10.5", "Track Properties in PUBLISH_OK",
		answers(offered, violation, &moqt.RequestOK{Properties: properties(0x3e)})),
	rule("10.11", "PUBLISH_DONE of a subscriber", answers(offered, nil, &moqt.RequestOK{}, &moqt.PublishDone{})),
	rule("10.13", "FETCH_OK that ends before the FETCH starts",
		answers(askedForThePast, violation, &moqt.FetchOK{End: moqt.Location{Group: 4, Object: 1}})),
}

// publisherCases are the other cases with a client that publishes.
var publisherCases = []Case{
	rule("2.5.1", "unknown Mandatory Track Property in SUBSCRIBE_OK", func(t *trial) {
		at, by := ask[*moqt.Subscribe](announced(t), &moqt.Subscribe{Track: t.track("x")})
		at.send(&moqt.SubscribeOK{TrackAlias: 7, Properties: properties(0x4000)})
		by.refused(moqt.RequestUnsupportedExtension)
		at.alive()
	}),
	rule("5.1", "second SUBSCRIBE to a track is refused", func(t *trial) {
		at, by := ask[*moqt.Subscribe](announced(t), &moqt.Subscribe{Track: t.track("x")})
		at.send(&moqt.SubscribeOK{TrackAlias: 7})
		expect[*moqt.SubscribeOK](by)
		by.raw(by.encode(&moqt.Subscribe{RequestID: 2, Track: t.track("x")})).refused(moqt.RequestDuplicateSubscription)
	}).until(moqt.Draft18),
	rule("9.5", "violation of a publisher ends no other session", func(t *trial) {
		at, by := ask[*moqt.Subscribe](announced(t), &moqt.Subscribe{Track: t.track("x")})
		at.send(&moqt.FetchOK{})
		at.closes(at.conn)
		by.alive()
	}),
	rule("11.1", "SUBSCRIBE_OK with the Track Alias of another track", func(t *trial) {
		p := announced(t)
		for _, name := range []string{"a", "b"} {
			at, by := ask[*moqt.Subscribe](p, &moqt.Subscribe{Track: t.track(name)})
			at.send(&moqt.SubscribeOK{TrackAlias: 7})
			if name == "a" {
				expect[*moqt.SubscribeOK](by)
			}
		}
		p.closes(p.conn, moqt.SessionDuplicateTrackAlias)
	}),
	rule("14", "unknown code of REQUEST_ERROR", func(t *trial) {
		at, by := ask[*moqt.Subscribe](announced(t), &moqt.Subscribe{Track: t.track("x")})
		at.send(&moqt.RequestError{Code: moqt.RequestErrorCode(moqt.Grease(3))})
		expect[*moqt.RequestError](by)
		at.alive()
	}),
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
