package conform

import (
	"fmt"
	"slices"

	"sluice/moqt"
	"sluice/moqt/session"
)

// trackCases are about the objects of tracks.
var trackCases = []Case{
	{Section: "2.2", Name: "Subgroup ID, Publisher Priority and FIRST_OBJECT are passed on", run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		for i := range uint64(3) {
			h := moqt.SubgroupHeader{GroupID: 5, SubgroupID: i, Priority: uint8(10 * i), FirstObject: true}
			o := object{Location: moqt.Location{Group: 5, Object: i}}
			o.Payload = o.String()
			_ = b.source.send(b.pub, h, o).Close()
		}
		for i, o := range b.sink.wants("5.0", "5.1", "5.2") {
			equal(t, "Subgroup ID", uint64(i), o.Subgroup)
			equal(t, "Publisher Priority", uint8(10*i), o.Priority)
			if h := next(t, b.sink.headers, "a SUBGROUP_HEADER"); t.suite.version >= moqt.Draft18 {
				equal(t, "FIRST_OBJECT", true, h.FirstObject)
			}
		}
	}},
	{Section: "2.4.2", Name: "malformed track ends its subscriptions with MALFORMED_TRACK", run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		_ = b.source.send(b.pub, moqt.SubgroupHeader{GroupID: 2, FirstObject: true},
			object{Status: moqt.StatusEndOfGroup}).Close()
		b.sink.wants("2.0")
		b.source.send(b.pub, moqt.SubgroupHeader{GroupID: 2, SubgroupID: 1, FirstObject: true},
			object{Location: moqt.Location{Object: 5}, Payload: "beyond the end"})
		equal(t, "PUBLISH_DONE", moqt.DoneMalformedTrack, b.sink.done().Status)
		b.source.announce(t.below("after")) // the session of the publisher goes on
	}},
	{Section: "2.5", Name: "unknown properties are passed on unchanged", run: func(t *trial) {
		c := newClient(t)
		c.properties = properties(0x3e)
		b := broadcastOf(t, c, moqt.Parameters{})
		passedOn(t, c.properties, b.sink.Properties())
		o := object{Properties: string(properties(moqt.Grease(1))), Payload: "0.0"}
		b.source.send(b.pub, moqt.SubgroupHeader{HasProperties: true, FirstObject: true}, o)
		passedOn(t, moqt.Properties(o.Properties), moqt.Properties(b.sink.wants("0.0")[0].Properties))
	}},
	{Section: "5.1", Name: "Forward State 0 brings nothing until it is 1", run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		k, _ := newClient(t).subscribe(t.track("x"), moqt.Parameters{Forward: new(false)})
		b.source.group(b.pub, 0, 0)
		b.sink.wants("0.0") // so it would have come to the other one, too
		_, err := k.Update(t.ctx, moqt.Parameters{Forward: new(true)})
		t.must(err, "REQUEST_OK to REQUEST_UPDATE")
		b.source.group(b.pub, 1, 0)
		k.wants("1.0")
	}},
	{Section: "5.1", Name: "subscription that comes before its publisher, and PUBLISH",
		Runner: "publish-to-pending-subscription", from: moqt.Draft18, run: func(t *trial) {
			wait, track := uint64(t.suite.Timeout.Milliseconds()), t.fresh()
			k := newClient(t).ask(track, moqt.Parameters{RendezvousTimeout: &wait})
			c := newClient(t)
			p := c.publish(track)
			_, err := k.Wait(t.ctx)
			t.must(err, "SUBSCRIBE_OK")
			forwarded(c, p)
			c.group(p, 0, 0)
			k.wants("0.0")
			t.must(p.Done(moqt.DoneTrackEnded, ""), "PUBLISH_DONE can be sent")
			equal(t, "PUBLISH_DONE", moqt.DoneTrackEnded, k.done().Status)
		}},
	{Section: "5.1.2", Name: "filter AbsoluteStart", run: filtered(
		moqt.Filter{Type: moqt.FilterAbsoluteStart, Start: moqt.Location{Group: 5, Object: 1}},
		"5.1", "5.2", "6.0", "6.1", "6.2", "7.0", "7.1", "7.2")},
	{Section: "5.1.2", Name: "filter AbsoluteRange", run: filtered(
		moqt.Filter{Type: moqt.FilterAbsoluteRange, Start: moqt.Location{Group: 5}, EndGroupDelta: 1},
		names(5, 6)...)},
	{Section: "5.1.2", Name: "filter Largest Object", run: filtered(
		moqt.Filter{Type: moqt.FilterLargestObject}, names(4, 7)...)},
	{Section: "9.3", Name: "two publishers of a track, whose objects come once", run: func(t *trial) {
		first, second := newClient(t), newClient(t)
		first.announce(t.namespace)
		second.announce(t.namespace)
		k, _ := newClient(t).subscribe(t.track("x"), moqt.Parameters{})
		p, q := served(first), served(second)
		first.group(p, 0, 0)
		k.wants("0.0")
		second.group(q, 0, 0)
		second.group(q, 1, 0)
		k.wants("1.0")
	}},
	{Section: "9.4", Name: "objects come whole and in order", run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		var want []object
		for i := range uint64(100) {
			want = append(want, object{Location: moqt.Location{Object: i}, Payload: fmt.Sprintf("%*d", int(1+50*i), i)})
		}
		_ = b.source.send(b.pub, moqt.SubgroupHeader{FirstObject: true}, want...).Close()
		for _, w := range want {
			got := next(t, b.sink.objects, "object "+w.String())
			equal(t, "object", w.String(), got.String())
			equal(t, "payload of object "+w.String(), w.Payload, got.Payload)
		}
		equal(t, "end of the stream", "fin", next(t, b.sink.ends, "FIN"))
	}},
	{Section: "9.4", Name: "several subscribers get the same objects", run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		sinks := []*sink{b.sink}
		for range 3 {
			k, _ := newClient(t).subscribe(t.track("x"), moqt.Parameters{})
			sinks = append(sinks, k)
		}
		b.source.group(b.pub, 0, 0, 1, 2)
		for _, k := range sinks {
			k.wants(names(0, 0)...)
		}
	}},
	{Section: "9.5", Name: "PUBLISH of a track with a subscriber gets Forward State 1", run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		c := newClient(t)
		p := c.publish(t.track("x"))
		forwarded(c, p)
		c.group(p, 9, 0)
		b.sink.wants("9.0")
	}},
	{Section: "10.2.8", Name: "FETCH in descending order", run: func(t *trial) {
		past(t).fetched(moqt.Fetch{
			FetchType: moqt.FetchStandalone, End: moqt.Location{Group: 2},
			Parameters: moqt.Parameters{GroupOrder: new(moqt.Descending)},
		}, slices.Concat(names(2, 2), names(1, 1), names(0, 0)))
	}},
	{Section: "10.2.11", Name: "SUBSCRIBE_OK has LARGEST_OBJECT", run: func(t *trial) {
		past(t)
		_, ok := newClient(t).subscribe(t.track("x"), moqt.Parameters{})
		isLargest(t, ok.Parameters.LargestObject)
	}},
	{Section: "10.9.1", Name: "REQUEST_UPDATE of a subscription is answered", run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		_, err := b.sink.Update(t.ctx, moqt.Parameters{SubscriberPriority: new(uint8(1))})
		t.must(err, "REQUEST_OK to REQUEST_UPDATE")
	}},
	{Section: "10.11", Name: "PUBLISH_DONE comes last, with its code and the number of streams", run: func(t *trial) {
		b := past(t)
		t.must(b.pub.Done(moqt.DoneTrackEnded, "over"), "PUBLISH_DONE can be sent")
		end := b.sink.done()
		equal(t, "PUBLISH_DONE", moqt.DoneTrackEnded, end.Status)
		if end.StreamCount != moqt.UnknownStreamCount {
			equal(t, "Stream Count", uint64(len(b.sink.headers)), end.StreamCount)
		}
		equal(t, "streams that have ended", len(b.sink.headers), len(b.sink.ends))
	}},
	{Section: "10.12.1", Name: "standalone FETCH of a range", run: func(t *trial) {
		past(t).fetched(moqt.Fetch{
			FetchType: moqt.FetchStandalone,
			Start:     moqt.Location{Group: 1, Object: 1}, End: moqt.Location{Group: 3, Object: 1},
		}, []string{"1.1", "1.2", "2.0", "2.1", "2.2", "3.0"})
	}},
	{Section: "10.12.2", Name: "relative joining FETCH", to: moqt.Draft19,
		run: joined(moqt.FetchRelativeJoining, 1, names(2, 3))},
	{Section: "10.12.2", Name: "absolute joining FETCH", to: moqt.Draft19,
		run: joined(moqt.FetchAbsoluteJoining, 1, names(1, 3))},
	{Section: "10.12.2", Name: "joining FETCH of a subscription with Forward State 0 is refused", to: moqt.Draft19,
		run: func(t *trial) {
			past(t)
			c := newClient(t)
			k, _ := c.subscribe(t.track("x"), moqt.Parameters{Forward: new(false)})
			fetchRefused(c, moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningRequestID: k.ID()})
		}},
	{Section: "10.12.2", Name: "joining FETCH without objects is refused", to: moqt.Draft19,
		run: func(t *trial) {
			b := newBroadcast(t, moqt.Parameters{})
			fetchRefused(b.viewer, moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningRequestID: b.sink.ID()})
		}},
	{Section: "10.12.3", Name: "FETCH beyond the Largest Object is refused", run: func(t *trial) {
		fetchRefused(past(t).viewer, moqt.Fetch{
			FetchType: moqt.FetchStandalone, Track: t.track("x"),
			Start: moqt.Location{Group: 7}, End: moqt.Location{Group: 9},
		})
	}},
	{Section: "10.14", Name: "TRACK_STATUS has LARGEST_OBJECT", run: func(t *trial) {
		ok, err := past(t).viewer.TrackStatus(t.ctx, moqt.TrackStatus{Track: t.track("x")})
		t.must(err, "REQUEST_OK to TRACK_STATUS")
		isLargest(t, ok.Parameters.LargestObject)
	}},
	{Section: "11.2.1.1", Name: "End of Group and End of Track are passed on", run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		for g, status := range []moqt.ObjectStatus{moqt.StatusEndOfGroup, moqt.StatusEndOfTrack} {
			_ = b.source.send(b.pub, moqt.SubgroupHeader{GroupID: uint64(g), FirstObject: true},
				object{Payload: fmt.Sprintf("%d.0", g)},
				object{Location: moqt.Location{Object: 1}, Status: status}).Close()
			got := b.sink.wants(fmt.Sprintf("%d.0", g), fmt.Sprintf("%d.1", g))
			equal(t, "status", status, got[1].Status)
		}
	}},
	{Section: "11.3", Name: "objects in datagrams come in datagrams", run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		t.must(b.pub.SendDatagram(moqt.ObjectDatagram{
			Location: moqt.Location{Group: 4, Object: 2}, Priority: 9, Payload: []byte("4.2"),
		}), "a datagram can be sent")
		o := b.sink.wants("4.2")[0]
		equal(t, "in a datagram", true, o.Datagram)
		equal(t, "Publisher Priority", uint8(9), o.Priority)
	}},
	{Section: "11.4.3", Name: "reset of a subgroup's stream is passed on", run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		stream := b.source.send(b.pub, moqt.SubgroupHeader{FirstObject: true}, object{Payload: "0.0"})
		b.sink.wants("0.0")
		stream.CancelWrite(uint64(moqt.ResetDeliveryTimeout))
		equal(t, "end of the stream", "reset", next(t, b.sink.ends, "RESET_STREAM"))
	}},
	{Section: "19 5.1", Name: "several subscriptions to a track", from: moqt.Draft19, run: func(t *trial) {
		b := newBroadcast(t, moqt.Parameters{})
		k, ok := b.viewer.subscribe(t.track("x"), moqt.Parameters{})
		if first, _ := b.sink.Alias(); first == ok.TrackAlias {
			t.fail("a Track Alias of its own", "%d twice", first)
		}
		b.source.group(b.pub, 0, 0)
		b.sink.wants("0.0")
		k.wants("0.0")
	}},
	{Section: "20 5.1.2", Name: "FETCH of the last groups", from: moqt.Draft20, run: func(t *trial) {
		past(t).fetched(moqt.Fetch{FetchType: moqt.FetchRelative, JoiningStart: 2}, names(2, 3))
	}},
	{Section: "20 5.1.3", Name: "SUBSCRIBE with a fill", from: moqt.Draft20, run: func(t *trial) {
		past(t)
		c := newClient(t)
		k, _ := c.subscribe(t.track("x"), moqt.Parameters{
			Filter: &moqt.Filter{Type: moqt.FilterLargestObject},
			Fill:   &moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterRelativeStart, Groups: 2}},
		})
		equal(t, "objects of the fill", fmt.Sprint(names(2, 3)), fmt.Sprint(next(t, k.fills, "a stream with the fill")))
	}},
}

// broadcast is a track, its publisher, and a subscriber.
type broadcast struct {
	*trial
	source *client
	pub    *session.Publication
	viewer *client
	sink   *sink
}

// newBroadcast subscribes to a track that a publisher has in its namespace.
func newBroadcast(t *trial, p moqt.Parameters) *broadcast {
	return broadcastOf(t, newClient(t), p)
}

func broadcastOf(t *trial, source *client, p moqt.Parameters) *broadcast {
	source.announce(t.namespace)
	b := &broadcast{trial: t, source: source, viewer: newClient(t)}
	b.sink, _ = b.viewer.subscribe(t.track("x"), p)
	b.pub = served(source)
	return b
}

// past is a broadcast whose groups 0 to 3 have come, with three objects each.
func past(t *trial) *broadcast {
	b := newBroadcast(t, moqt.Parameters{})
	for g := range uint64(4) {
		b.source.group(b.pub, g, 0, 1, 2)
		b.sink.wants(names(g, g)...)
	}
	return b
}

// names are the objects of some groups of past.
func names(first, last uint64) (all []string) {
	for g := first; g <= last; g++ {
		for id := range 3 {
			all = append(all, fmt.Sprintf("%d.%d", g, id))
		}
	}
	return all
}

// passedOn expects the property of one set in another, to which the relay may have added some.
func passedOn(t *trial, sent, got moqt.Properties) {
	for want := range sent.All() {
		p, _ := got.Lookup(want.Type)
		equal(t, fmt.Sprintf("value of property %#x", want.Type), want.Value, p.Value)
	}
}

// filtered expects objects of two groups with a filter.
func filtered(f moqt.Filter, want ...string) func(*trial) {
	return func(t *trial) {
		b := past(t)
		k, _ := newClient(t).subscribe(t.track("x"), moqt.Parameters{Filter: &f})
		for g := uint64(4); g < 8; g++ {
			b.source.group(b.pub, g, 0, 1, 2)
			b.sink.wants(names(g, g)...)
		}
		k.wants(want...)
		_, _ = k.c.ask(t.track("none"), moqt.Parameters{}).Wait(t.ctx) // so much later, nothing else is on its way
		select {
		case o := <-k.objects:
			t.fail("no other objects", "%s", o)
		default:
		}
	}
}

// fetched compares the objects of a response.
func (b *broadcast) fetched(m moqt.Fetch, want []string) {
	m.Track = b.track("x")
	equal(b.trial, "objects of the response", fmt.Sprint(want), fmt.Sprint(b.viewer.fetch(m)))
}

// joined subscribes once more, and fetches the groups before.
func joined(typ moqt.FetchType, start uint64, want []string) func(*trial) {
	return func(t *trial) {
		b := past(t)
		b.viewer = newClient(t)
		k, _ := b.viewer.subscribe(t.track("x"), moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterLargestObject}})
		b.fetched(moqt.Fetch{FetchType: typ, JoiningRequestID: k.ID(), JoiningStart: start}, want)
	}
}

// fetchRefused sends a FETCH that has to be refused with INVALID_RANGE.
func fetchRefused(c *client, m moqt.Fetch) {
	f, err := c.Fetch(c.t.ctx, m)
	c.t.must(err, "FETCH can be sent")
	_, err = f.Wait(c.t.ctx)
	refusal(c.t, err, moqt.RequestInvalidRange)
}

// isLargest expects the last object of past.
func isLargest(t *trial, l *moqt.Location) {
	if l == nil {
		t.fail("LARGEST_OBJECT", "none")
	}
	equal(t, "LARGEST_OBJECT", moqt.Location{Group: 3, Object: 2}, *l)
}
