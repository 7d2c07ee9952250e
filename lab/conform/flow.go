package conform

import (
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
)

// flowCases are about requests without objects.
var flowCases = []Case{
	{Section: "3.3", Name: "SETUP is exchanged", Runner: "setup-only", run: func(t *trial) { newClient(t) }},
	{Section: "5.1", Name: "SUBSCRIBE is passed on to the publisher of the namespace, with Forward State 1",
		Runner: "announce-subscribe", run: func(t *trial) {
			c := newClient(t)
			c.announce(t.namespace)
			k := newClient(t).ask(t.track(testTrack), moqt.Parameters{})
			equal(t, "Forward State of the relay's SUBSCRIBE", true, served(c).Forward())
			_, err := k.Wait(t.ctx)
			t.must(err, "SUBSCRIBE_OK")
		}},
	{Section: "6.1", Name: "SUBSCRIBE_NAMESPACE tells namespaces that are there, that come and that go",
		run: func(t *trial) {
			c := newClient(t)
			c.announce(t.below("a"))
			_, told := watch(newClient(t))
			equal(t, "namespace", "+"+t.below("a").String(), next(t, told, "NAMESPACE of a namespace that is there"))
			b := c.announce(t.below("b"))
			equal(t, "namespace", "+"+t.below("b").String(), next(t, told, "NAMESPACE of a namespace that comes"))
			b.Cancel(moqt.ResetCancelled)
			equal(t, "namespace", "-"+t.below("b").String(), next(t, told, "NAMESPACE_DONE"))
			c.Close(moqt.SessionNoError, "")
			equal(t, "namespace", "-"+t.below("a").String(), next(t, told, "NAMESPACE_DONE when the session ends"))
		}},
	{Section: "6.1", Name: "SUBSCRIBE_TRACKS brings tracks that come", run: func(t *trial) {
		c := newClient(t)
		s, err := c.SubscribeTracks(t.ctx, moqt.SubscribeTracks{Prefix: t.namespace}, func(moqt.FullTrackName) {})
		t.must(err, "SUBSCRIBE_TRACKS can be sent")
		t.must(s.Wait(t.ctx), "REQUEST_OK to SUBSCRIBE_TRACKS")
		d := newClient(t)
		p := d.publish(t.track("x"))
		offer := next(t, c.offered, "PUBLISH of the track")
		equal(t, "track", t.track("x").String(), offer.Track().String())
		k := newSink(c)
		k.Subscription = offer
		t.must(offer.Accept(moqt.Parameters{}, k), "PUBLISH_OK can be sent")
		forwarded(d, p)
		d.group(p, 3, 0, 1)
		k.wants("3.0", "3.1")
	}},
	{Section: "6.2", Name: "PUBLISH_NAMESPACE can be withdrawn", Runner: "publish-namespace-done", run: func(t *trial) {
		c := newClient(t)
		c.announce(t.namespace).Cancel(moqt.ResetCancelled)
		if t.suite.Exact { // others may publish there
			c.announce(t.below("after"))
			return
		}
		_, err := newClient(t).ask(t.track("x"), moqt.Parameters{}).Wait(t.ctx)
		refusal(t, err, moqt.RequestDoesNotExist)
	}},
	{Section: "9.5", Name: "SUBSCRIBE is passed on to the publisher of a prefix of the namespace",
		run: func(t *trial) {
			c := newClient(t)
			c.announce(t.namespace)
			track := moqt.FullTrackName{Namespace: t.namespace.Join(moqt.Namespace{"a", "b"}), Name: "x"}
			newClient(t).subscribe(track, moqt.Parameters{})
			equal(t, "track of the relay's SUBSCRIBE", track.String(), served(c).Track().String())
		}},
	{Section: "10.2.6", Name: "SUBSCRIBE that comes before its publisher is answered",
		Runner: "subscribe-before-announce", run: func(t *trial) {
			k := newClient(t).ask(t.track(testTrack), moqt.Parameters{})
			answered := make(chan error, 1)
			t.running.Go(func() {
				_, err := k.Wait(t.ctx)
				answered <- err
			})
			select { // a relay may hold it back
			case err := <-answered:
				answered <- err
			case <-time.After(min(time.Second/2, t.suite.Timeout/4)):
			}
			newClient(t).announce(t.namespace)
			if err := next(t, answered, "SUBSCRIBE_OK or REQUEST_ERROR"); err != nil {
				refusal(t, err, moqt.RequestDoesNotExist, moqt.RequestTimeout)
			}
		}},
	{Section: "10.6", Name: "SUBSCRIBE without a publisher is refused, and the session goes on",
		Runner: "subscribe-error", run: func(t *trial) {
			c := newClient(t)
			track := t.track("none")
			if t.suite.Exact {
				track = moqt.FullTrackName{Namespace: moqt.Namespace{"nonexistent", "namespace"}, Name: testTrack}
			}
			for range 2 {
				_, err := c.ask(track, moqt.Parameters{}).Wait(t.ctx)
				refusal(t, err, moqt.RequestDoesNotExist)
			}
		}},
	{Section: "10.9", Name: "REQUEST_UPDATE of PUBLISH_NAMESPACE is answered", run: func(t *trial) {
		t.must(newClient(t).announce(t.namespace).Update(t.ctx, moqt.Parameters{}), "REQUEST_OK to REQUEST_UPDATE")
	}},
	{Section: "10.9.2", Name: "REQUEST_UPDATE of SUBSCRIBE_NAMESPACE changes the prefix", from: moqt.Draft18,
		run: func(t *trial) {
			n, told := watch(newClient(t))
			prefix := t.below("a")
			t.must(n.Update(t.ctx, moqt.Parameters{NamespacePrefix: &prefix}), "REQUEST_OK to REQUEST_UPDATE")
			c := newClient(t)
			for _, name := range []string{"b", "a"} { // of these, the second has the new prefix
				c.announce(t.below(name).Join(moqt.Namespace{"x"}))
			}
			want := "+" + t.below("a").Join(moqt.Namespace{"x"}).String()
			equal(t, "namespace", want, next(t, told, "NAMESPACE below the new prefix"))
		}},
	{Section: "10.9.2", Name: "REQUEST_UPDATE to an overlapping prefix is refused", from: moqt.Draft18,
		run: func(t *trial) {
			c := newClient(t)
			request := func(name string) *session.NamespaceSubscription {
				n, err := c.SubscribeNamespace(t.ctx, moqt.SubscribeNamespace{Prefix: t.below(name)},
					func(moqt.Namespace, bool, moqt.Parameters) {})
				t.must(err, "SUBSCRIBE_NAMESPACE can be sent")
				t.must(n.Wait(t.ctx), "REQUEST_OK to SUBSCRIBE_NAMESPACE")
				return n
			}
			request("a")
			prefix := t.below("a").Join(moqt.Namespace{"b"})
			err := request("b").Update(t.ctx, moqt.Parameters{NamespacePrefix: &prefix})
			refusal(t, err, moqt.RequestPrefixOverlap)
		}},
	{Section: "10.10", Name: "PUBLISH is accepted", run: func(t *trial) { newClient(t).publish(t.track("x")) }},
	{Section: "10.10", Name: "PUBLISH without a subscriber: objects, PUBLISH_DONE",
		Runner: "publish-without-subscriber", run: func(t *trial) {
			c := newClient(t)
			p := c.publish(t.fresh())
			if p.Forward() {
				c.group(p, 0, 0)
			}
			t.must(p.Flush(t.ctx), "PUBLISH is sent")
			t.must(p.Done(moqt.DoneTrackEnded, ""), "PUBLISH_DONE can be sent")
			c.announce(t.below("after")) // the session goes on
		}},
	{Section: "10.14", Name: "TRACK_STATUS of no track is refused", run: func(t *trial) {
		_, err := newClient(t).TrackStatus(t.ctx, moqt.TrackStatus{Track: t.track("none")})
		refusal(t, err, moqt.RequestDoesNotExist)
	}},
	{Section: "10.15", Name: "PUBLISH_NAMESPACE is accepted", Runner: "announce-only",
		run: func(t *trial) { newClient(t).announce(t.namespace) }},
	{Section: "19 5.1.3", Name: "Range Filter without ranges is refused", from: moqt.Draft19, run: func(t *trial) {
		c := newClient(t)
		c.announce(t.namespace)
		p := join(t)
		e := p.raw(p.encode(&moqt.Subscribe{Track: t.track("x"), Parameters: moqt.Parameters{
			RangeFilters: moqt.RangeFilters{{Type: moqt.ParameterObjectIDFilter}},
		}}))
		e.refused(moqt.RequestInvalidFilter)
	}},
}

// testTrack is the track that moq-interop-runner names.
const testTrack = "test-track"

// served waits for the SUBSCRIBE of the relay.
func served(c *client) *session.Publication {
	return next(c.t, c.asked, "SUBSCRIBE of the relay at the publisher")
}

// watch subscribes to namespaces below the trial's, and returns the reports: "+" or "-", and the namespace.
func watch(c *client) (*session.NamespaceSubscription, <-chan string) {
	told := make(chan string, 10)
	n, err := c.SubscribeNamespace(c.t.ctx, moqt.SubscribeNamespace{Prefix: c.t.namespace},
		func(ns moqt.Namespace, published bool, _ moqt.Parameters) {
			told <- map[bool]string{true: "+", false: "-"}[published] + ns.String()
		})
	c.t.must(err, "SUBSCRIBE_NAMESPACE can be sent")
	c.t.must(n.Wait(c.t.ctx), "REQUEST_OK to SUBSCRIBE_NAMESPACE")
	return n, told
}

// forwarded waits until the relay wants objects of a track that was published.
func forwarded(c *client, p *session.Publication) {
	for !p.Forward() {
		select {
		case <-c.t.ctx.Done():
			c.t.fail("Forward State 1 of the relay", "")
		case <-time.After(time.Millisecond):
		}
	}
}
