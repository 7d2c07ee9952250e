package session

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport"
)

// TestSubscriptionsThatEnd checks what the application sees, for each way in which a subscription ends.
func TestSubscriptionsThatEnd(t *testing.T) {
	properties, err := moqt.NewProperties(moqt.KeyValuePair{Type: 0x4001, Bytes: []byte("?")})
	require.NoError(t, err)
	for _, tc := range []struct {
		name     string
		do       func(*script, *Subscription, *exchange)
		cause    error
		closed   bool // the session closes its side in an orderly way
		accepted bool
	}{
		{"refused", func(_ *script, _ *Subscription, e *exchange) {
			e.send(&moqt.RequestError{Code: 77})
		}, &moqt.RequestError{Code: 77}, true, false},
		{"done", func(_ *script, _ *Subscription, e *exchange) {
			e.send(&moqt.SubscribeOK{}, &moqt.PublishDone{Status: moqt.DoneExpired})
		}, &DoneError{moqt.PublishDone{Status: moqt.DoneExpired}}, true, true},
		{"closed without PUBLISH_DONE", func(p *script, _ *Subscription, e *exchange) {
			e.send(&moqt.SubscribeOK{})
			require.NoError(p, e.Close())
		}, ErrNoResponse, true, true},
		{"closed without response", func(p *script, _ *Subscription, e *exchange) {
			require.NoError(p, e.Close())
		}, ErrNoResponse, true, false},
		{"reset", func(_ *script, _ *Subscription, e *exchange) {
			e.send(&moqt.SubscribeOK{})
			time.Sleep(time.Millisecond)
			e.CancelWrite(uint64(moqt.ResetExcessiveLoad))
		}, &transport.StreamError{Code: uint64(moqt.ResetExcessiveLoad), Remote: true}, false, true},
		{"stopped", func(_ *script, _ *Subscription, e *exchange) {
			e.CancelRead(uint64(moqt.ResetGoingAway))
		}, &transport.StreamError{Code: uint64(moqt.ResetGoingAway), Remote: true}, false, false},
		{"cancelled", func(_ *script, sub *Subscription, _ *exchange) {
			sub.Cancel(moqt.ResetCancelled)
		}, &transport.StreamError{Code: uint64(moqt.ResetCancelled)}, false, false},
		{"no response in time", func(*script, *Subscription, *exchange) {}, ErrTimeout, false, false},
		{"mandatory track property", func(_ *script, _ *Subscription, e *exchange) {
			e.send(&moqt.SubscribeOK{Properties: properties})
		}, &moqt.RequestError{
			Code: moqt.RequestUnsupportedExtension, Reason: "mandatory track property 0x4001 is not supported",
		}, false, false},
		{"malformed track", func(p *script, _ *Subscription, e *exchange) {
			// SUBSCRIBE_OK with immutable properties within immutable properties.
			p.write(e, []byte{byte(moqt.MessageSubscribeOK), 0, 6, 0, 0, 0x0b, 2, 0x0b, 0})
		}, &moqt.MalformedTrackError{Reason: "immutable properties contain immutable properties"}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, setting{}, func(p *script) {
				sub, e := p.subscribe(testTrack, newCollector())
				tc.do(p, sub, e)
				_, err := sub.Wait(p.Context())
				<-sub.Context().Done()
				require.Equal(p, tc.cause, context.Cause(sub.Context()))
				if !tc.accepted {
					require.ErrorContains(p, err, tc.cause.Error())
				}
				if tc.closed {
					e.requireEOF()
				}
				again, _ := p.subscribe(testTrack, newCollector()) // the track is free
				require.NotNil(p, again)
				p.requireOpen()
			})
		})
	}
}

func TestResponseTimeout(t *testing.T) {
	for _, tc := range []struct {
		parameters moqt.Parameters
		want       time.Duration
	}{
		{moqt.Parameters{}, time.Minute},
		{moqt.Parameters{RendezvousTimeout: new(uint64(5_000))}, 65 * time.Second},
		{moqt.Parameters{RendezvousTimeout: new(uint64(math.MaxUint64))}, 24*time.Hour + time.Minute},
	} {
		play(t, setting{}, func(p *script) {
			started := time.Now()
			sub, err := p.s.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack, Parameters: tc.parameters}, nil)
			require.NoError(p, err)
			_, err = sub.Wait(p.Context())
			require.ErrorIs(p, err, ErrTimeout)
			require.Equal(p, tc.want, time.Since(started))
		})
	}
}

func TestUpdateOfASubscription(t *testing.T) {
	dynamic, err := moqt.NewProperties(moqt.KeyValuePair{Type: moqt.PropertyDynamicGroups, Value: 1})
	require.NoError(t, err)
	play(t, setting{}, func(p *script) {
		sub, e := p.subscribe(testTrack, newCollector())
		newGroup := moqt.Parameters{NewGroupRequest: new(uint64(1))}
		_, err := sub.Update(p.Context(), newGroup)
		require.ErrorIs(p, err, errNotDynamic)
		e.send(&moqt.SubscribeOK{Properties: dynamic})
		_, err = sub.Wait(p.Context())
		require.NoError(p, err)

		results := make(chan error, 3)
		for i := range 3 {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				ok, err := sub.Update(p.Context(), newGroup)
				if err == nil {
					require.EqualValues(p, i, ok.Parameters.LargestObject.Group, "responses come in order")
				}
				results <- err
			}()
		}
		for i := range uint64(3) {
			require.Equal(p, &moqt.RequestUpdate{RequestID: 2 + 2*i, Parameters: newGroup}, e.receive())
		}
		answer := func(group uint64) moqt.Message {
			return &moqt.RequestOK{Parameters: moqt.Parameters{LargestObject: &moqt.Location{Group: group}}}
		}
		e.send(answer(0))
		require.NoError(p, <-results)
		// One error may stand for all that are outstanding (draft §10.9.1), or each may have its own.
		e.send(&moqt.RequestError{Code: moqt.RequestUnauthorized}, &moqt.RequestError{Code: moqt.RequestUnauthorized})
		require.ErrorContains(p, <-results, "UNAUTHORIZED")
		require.ErrorContains(p, <-results, "UNAUTHORIZED")
		e.send(&moqt.PublishDone{Status: moqt.DoneUpdateFailed})
		<-sub.Context().Done()
		p.requireOpen()
	})
}

func TestDrainOfASubscription(t *testing.T) {
	timeout := moqt.Parameters{ObjectDeliveryTimeout: new(uint64(10_000))}
	properties, err := moqt.NewProperties(moqt.KeyValuePair{Type: moqt.PropertyObjectDeliveryTimeout, Value: 5_000})
	require.NoError(t, err)
	for _, tc := range []struct {
		name    string
		streams uint64 // Stream Count
		opened  int
		want    time.Duration
	}{
		{"no streams", 0, 0, 0},
		{"all streams came", 2, 2, 0},
		{"a stream is missing", 3, 2, 5 * time.Second}, // the smaller delivery timeout
		{"unknown count", moqt.UnknownStreamCount, 2, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, setting{}, func(p *script) {
				c := newCollector()
				sub, err := p.s.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack, Parameters: timeout}, c)
				require.NoError(p, err)
				e := p.accept()
				e.send(&moqt.SubscribeOK{TrackAlias: 1, Properties: properties})
				for range tc.opened {
					require.NoError(p, p.uni(subgroupHeader(1)).Close())
					<-c.subgroups
				}
				p.requireOpen()
				started := time.Now()
				e.send(&moqt.PublishDone{StreamCount: tc.streams})
				<-sub.Ending()
				<-sub.Context().Done()
				require.Equal(p, tc.want, time.Since(started))
			})
		})
	}
}

func TestLateDatagramsAfterPublishDone(t *testing.T) {
	play(t, setting{}, func(p *script) {
		c := newCollector()
		sub, e := p.subscribed(testTrack, 1, c)
		o := datagram(p.T, moqt.ObjectDatagram{TrackAlias: 1})
		require.NoError(p, p.conn.SendDatagram(o))
		<-c.datagrams
		require.NoError(p, p.uni(subgroupHeader(1)).Close())
		<-c.subgroups
		e.send(&moqt.PublishDone{StreamCount: 1})
		<-sub.Ending()
		time.Sleep(datagramGrace - 1)
		require.NoError(p, p.conn.SendDatagram(o))
		<-c.datagrams
		<-sub.Context().Done()
	})
}

func TestLateStreamsAfterPublishDone(t *testing.T) {
	play(t, setting{}, func(p *script) {
		c := newCollector()
		sub, e := p.subscribed(testTrack, 1, c)
		e.send(&moqt.PublishDone{StreamCount: 1})
		<-sub.Ending()
		time.Sleep(time.Second)
		stream := p.uni(append(subgroupHeader(1), "late"...))
		time.Sleep(time.Hour) // an open stream is not cut off
		require.NoError(p, context.Cause(sub.Context()))
		require.NoError(p, stream.Close())
		require.Equal(p, "late", string((<-c.subgroups).body))
		<-sub.Context().Done()
	})
}

func TestAcceptPublish(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.Publish{Track: testTrack, TrackAlias: 6})
		early := p.uni(append(subgroupHeader(6), "early"...))
		sub := <-h.publishes
		require.Equal(p, testTrack, sub.Track())
		require.EqualValues(p, 6, sub.Offer().TrackAlias)
		_, err := sub.Update(p.Context(), moqt.Parameters{})
		require.ErrorIs(p, err, ErrUnanswered)

		c := newCollector()
		parameters := moqt.Parameters{Forward: new(true), SubscriberPriority: new(uint8(9))}
		require.NoError(p, sub.Accept(parameters, c))
		require.Equal(p, &moqt.RequestOK{Parameters: parameters}, e.receive())
		require.ErrorIs(p, sub.Accept(parameters, c), ErrAnswered)
		require.ErrorIs(p, sub.Reject(&moqt.RequestError{}), ErrAnswered)
		require.NoError(p, early.Close())
		require.Equal(p, "early", string((<-c.subgroups).body))

		updated := make(chan error, 1)
		go func() {
			_, err := sub.Update(p.Context(), moqt.Parameters{Forward: new(false)})
			updated <- err
		}()
		require.Equal(p, &moqt.RequestUpdate{RequestID: 1, Parameters: moqt.Parameters{Forward: new(false)}},
			e.receive())
		e.send(&moqt.RequestOK{})
		require.NoError(p, <-updated)

		// The publisher may update its request, too.
		token := moqt.Token{AliasType: moqt.AliasUseValue, Value: []byte("t")}
		e.update(moqt.Parameters{AuthorizationTokens: []moqt.Token{token}})
		u := <-sub.Updates()
		require.Equal(p, "t", string(u.Tokens[0].Value))
		require.NoError(p, u.OK(moqt.Parameters{}))
		require.IsType(p, &moqt.RequestOK{}, e.receive())

		e.send(&moqt.PublishDone{StreamCount: 1})
		<-sub.Context().Done()
		e.requireEOF()
	})
}

func TestPublishThatEndsBeforeItsResponse(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.Publish{Track: testTrack, TrackAlias: 6})
		require.NoError(p, p.uni(append(subgroupHeader(6), "all"...)).Close())
		e.send(&moqt.PublishDone{StreamCount: 1})
		require.NoError(p, e.Close())
		time.Sleep(time.Millisecond)
		sub, c := <-h.publishes, newCollector()
		require.NoError(p, sub.Accept(moqt.Parameters{}, c))
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		e.requireEOF()
		require.Equal(p, "all", string((<-c.subgroups).body))
		<-sub.Context().Done()
	})
}

func TestPublishDuringASubscribe(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		own, ownStream := p.subscribe(testTrack, newCollector())
		e := p.request(&moqt.Publish{Track: testTrack, TrackAlias: 1})
		p.requireOpen()
		p.request(&moqt.Publish{Track: testTrack, TrackAlias: 2}).requireRefused(moqt.RequestDuplicateSubscription)
		require.NoError(p, (<-h.publishes).Accept(moqt.Parameters{}, newCollector()))
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		_, err := own.Wait(p.Context())
		require.ErrorIs(p, err, ErrSuperseded)
		p.requireStopped(ownStream, moqt.ResetCancelled)
	})
	serve(t, func(p *script, _ *handler) {
		p.subscribed(testTrack, 1, newCollector())
		p.request(&moqt.Publish{Track: testTrack, TrackAlias: 1}).requireRefused(moqt.RequestDuplicateSubscription)
	})
}

func TestGoawayOnARequest(t *testing.T) {
	play(t, setting{}, func(p *script) {
		sub, e := p.subscribed(testTrack, 1, newCollector())
		e.send(&moqt.Goaway{NewSessionURI: "moqt://elsewhere/x", Timeout: 500})
		p.requireOpen()
		require.NoError(p, context.Cause(sub.Context()))
	})
}
