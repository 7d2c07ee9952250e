package session

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport/transporttest"
)

// in returns a setting for a version.
func in(v moqt.Version, s setting) setting {
	s.pipe = transporttest.PipeConfig{Protocol: v.ALPN()}
	return s
}

// laterVersions are those with a stream for each request, which a script can play.
func laterVersions() (later []moqt.Version) {
	for _, v := range moqt.Versions() {
		if !v.HasOneControlStream() {
			later = append(later, v)
		}
	}
	return later
}

// fillCollector also keeps fills.
type fillCollector struct {
	*collector
	fills chan *collectedFill
}

type collectedFill struct {
	id   uint64
	body []byte
}

func (c fillCollector) HandleFill(f *Fill) {
	b, _ := io.ReadAll(f)
	c.fills <- &collectedFill{f.RequestID, b}
}

// TestFills checks both ends of fills.
func TestFills(t *testing.T) {
	relative := &moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterRelativeStart, Groups: 2}}
	t.Run("subscriber", func(t *testing.T) {
		play(t, in(moqt.Draft22, setting{}), func(p *script) {
			receiver := fillCollector{newCollector(), make(chan *collectedFill, 10)}
			sub, err := p.s.Subscribe(p.Context(), moqt.Subscribe{
				Track: testTrack, Parameters: moqt.Parameters{Fill: relative},
			}, receiver)
			require.NoError(p, err)
			e := p.accept()
			require.Equal(p, relative, e.receive().(*moqt.Subscribe).Parameters.Fill)
			e.send(&moqt.SubscribeOK{TrackAlias: 1})
			_, err = sub.Wait(p.Context())
			require.NoError(p, err)
			stream := p.uni(append(fetchHeader(0), "objects"...))
			require.NoError(p, stream.Close())
			require.Equal(p, &collectedFill{0, []byte("objects")}, <-receiver.fills)
			e.send(&moqt.PublishDone{Status: moqt.DoneTrackEnded, StreamCount: 1})
			<-sub.Context().Done() // without a timeout: the fill counts
			require.ErrorContains(p, context.Cause(sub.Context()), "TRACK_ENDED")

			p.uni(fetchHeader(2))
			p.requireClosed(moqt.SessionProtocolViolation) // no fill was asked for by a message with this id
		})
	})
	t.Run("publisher", func(t *testing.T) {
		h := newHandler()
		play(t, in(moqt.Draft20, setting{cfg: Config{Role: Server, Handler: h}}), func(p *script) {
			e := p.request(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{
				SubscriberPriority: new(uint8(3)), Fill: relative, IncludeProperties: new(false),
			}})
			pub := <-h.subscribes
			require.Nil(p, pub.Parameters().Fill, "it is not kept")
			require.NoError(p, pub.Accept(moqt.Parameters{LargestObject: &moqt.Location{Group: 7, Object: 3}},
				moqt.Properties{0x04, 0x05}))
			require.Empty(p, e.receive().(*moqt.SubscribeOK).Properties)
			f := pub.Fill(nil, &moqt.Location{Group: 7, Object: 3})
			require.Equal(p, moqt.Range{
				Start: moqt.Location{Group: 6}, End: moqt.Location{Group: 7, Object: 3},
			}, f.Range)
			require.Equal(p, uint8(3), f.Parameters.Priority(), "what the fill does not say is as in the subscription")
			require.Nil(p, pub.Fill(nil, nil), "there are no objects")
			stream, err := f.OpenStream(p.Context())
			require.NoError(p, err)
			theirs, err := p.conn.AcceptUniStream(p.Context())
			require.NoError(p, err)
			require.Error(p, f.Reject(nil), "the stream is open")
			require.NoError(p, stream.Close())
			require.NoError(p, f.Done())
			b, err := io.ReadAll(theirs)
			require.NoError(p, err)
			require.Equal(p, fetchHeader(0), b)
			e.update(moqt.Parameters{Fill: &moqt.Parameters{}, Forward: new(false)})
			u := <-pub.Updates()
			require.NoError(p, u.OK(moqt.Parameters{}))
			require.Nil(p, pub.Fill(u, &moqt.Location{Group: 7}), "nothing is forwarded")
		})
	})
}

// TestRefusedFillsAreLimited asks for fills, without streams on which they could be refused.
func TestRefusedFillsAreLimited(t *testing.T) {
	h := newHandler()
	cfg := Config{Role: Server, Handler: h, Limits: Limits{MaxFetches: 1}}
	s := in(moqt.Draft22, setting{cfg: cfg})
	s.pipe.MaxUniStreams = 1 // for SETUP
	play(t, s, func(p *script) {
		e := p.request(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{Fill: &moqt.Parameters{
			Filter: &moqt.Filter{Type: moqt.FilterRelativeStart, Groups: 2},
		}}})
		pub := <-h.subscribes
		largest := &moqt.Location{Group: 7}
		require.NoError(p, pub.Accept(moqt.Parameters{LargestObject: largest}, nil))
		require.NotNil(p, pub.Fill(nil, largest))
		for range maxRefusedFills {
			require.Nil(p, pub.Fill(nil, largest))
		}
		synctest.Wait()
		require.NoError(p, pub.Context().Err())
		require.Nil(p, pub.Fill(nil, largest))
		e.requireReset(moqt.ResetExcessiveLoad)
		require.ErrorIs(p, context.Cause(pub.Context()), errTooManyFills)
		synctest.Wait()
		require.Zero(p, p.s.responder.load[loadFetches])
	})
}

// TestAwaitedFillsAreLimited asks for fills that the publisher does not send.
func TestAwaitedFillsAreLimited(t *testing.T) {
	fill := moqt.Parameters{Fill: &moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterRelativeStart}}}
	play(t, in(moqt.Draft22, setting{}), func(p *script) {
		sub, e := p.subscribed(testTrack, 1, fillCollector{newCollector(), make(chan *collectedFill, 10)})
		first := p.s.requester.nextID
		for range maxAwaitedFills + 1 {
			go sub.Update(p.Context(), fill)
			e.receive()
			e.send(&moqt.RequestOK{})
			synctest.Wait()
		}
		require.Len(p, p.s.table.fills, maxAwaitedFills)
		p.requireStopped(p.uni(fetchHeader(first)), moqt.ResetCancelled)
		require.NoError(p, p.uni(append(fetchHeader(first+2), "objects"...)).Close())
		require.Equal(p, first+2, (<-sub.receiver.(fillCollector).fills).id)
		p.requireOpen()
		require.Len(p, p.s.table.fills, maxAwaitedFills-1)
		sub.Cancel(moqt.ResetCancelled)
		require.Empty(p, p.s.table.fills)
	})
}

// TestFillsOfOffers checks which fills of tracks that the peer offers are taken.
func TestFillsOfOffers(t *testing.T) {
	asked := moqt.Parameters{Fill: &moqt.Parameters{}}
	for name, tc := range map[string]struct {
		prefix     string // of the SUBSCRIBE_TRACKS
		parameters moqt.Parameters
		updated    string // to another prefix
		streams    int
		want       moqt.SessionErrorCode
	}{
		"asked for":             {prefix: "example", parameters: asked, streams: 1},
		"by an update":          {prefix: "other", parameters: asked, updated: "example", streams: 1},
		"before an update":      {prefix: "example", parameters: asked, updated: "other", streams: 1},
		"twice":                 {"example", asked, "", 2, moqt.SessionProtocolViolation},
		"of other tracks":       {"other", asked, "", 1, moqt.SessionProtocolViolation},
		"no fill was asked for": {"example", moqt.Parameters{}, "", 1, moqt.SessionProtocolViolation},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandler()
			play(t, in(moqt.Draft22, setting{cfg: Config{Handler: h}}), func(p *script) {
				n, err := p.s.SubscribeTracks(p.Context(), moqt.SubscribeTracks{
					Prefix: moqt.Namespace{tc.prefix}, Parameters: tc.parameters,
				}, nil)
				require.NoError(p, err)
				e := p.accept()
				e.receive()
				e.send(&moqt.RequestOK{})
				if tc.updated != "" {
					go func() {
						e.receive()
						e.send(&moqt.RequestOK{})
					}()
					prefix := moqt.Namespace{tc.updated}
					require.NoError(p, n.Update(p.Context(), moqt.Parameters{NamespacePrefix: &prefix}))
				}
				p.request(&moqt.Publish{RequestID: 1, Track: testTrack, TrackAlias: 6})
				sub := <-h.publishes
				receiver := fillCollector{newCollector(), make(chan *collectedFill, 10)}
				require.NoError(p, sub.Accept(moqt.Parameters{}, receiver))
				for range tc.streams {
					_ = p.uni(append(fetchHeader(1), "objects"...)).Close() // the session may have ended by its header
					synctest.Wait()
				}
				if tc.want != 0 {
					p.requireClosed(tc.want)
					return
				}
				p.requireOpen()
				require.Equal(p, &collectedFill{1, []byte("objects")}, <-receiver.fills)
			})
		})
	}
}

// TestAcceptWithoutItsUpdate accepts a PUBLISH with a filter that the peer does not take.
func TestAcceptWithoutItsUpdate(t *testing.T) {
	h := newHandler()
	play(t, in(moqt.Draft22, setting{cfg: Config{Role: Server, Handler: h}}), func(p *script) {
		e := p.request(&moqt.Publish{Track: testTrack, TrackAlias: 1})
		sub := <-h.publishes
		require.Error(p, sub.Accept(moqt.Parameters{RangeFilters: moqt.RangeFilters{
			{Type: moqt.ParameterObjectIDFilter, Ranges: []moqt.ValueRange{{First: 1, Last: 1}}},
		}}, newCollector()))
		e.requireReset(moqt.ResetInternalError)
		require.Error(p, sub.Context().Err())
		require.Empty(p, p.s.table.subscriptions)
	})
}

// TestSharedTracks checks that a subscriber may have several subscriptions to a track since draft-19.
func TestSharedTracks(t *testing.T) {
	for _, v := range laterVersions() {
		h := newHandler()
		play(t, in(v, setting{cfg: Config{Role: Server, Handler: h}}), func(p *script) {
			p.request(&moqt.Subscribe{Track: testTrack})
			first := <-h.subscribes
			second := p.request(&moqt.Subscribe{Track: testTrack})
			if v == moqt.Draft18 {
				second.requireRefused(moqt.RequestDuplicateSubscription)
				return
			}
			require.NoError(p, first.Accept(moqt.Parameters{}, nil))
			other := <-h.subscribes
			require.NoError(p, other.Accept(moqt.Parameters{}, nil))
			require.NotEqual(p, first.Alias(), other.Alias())
		})
	}
}

// TestStateNotify checks PUBLISH_STATE_NOTIFY at both ends.
func TestStateNotify(t *testing.T) {
	largest := moqt.Parameters{LargestObject: &moqt.Location{Group: 7}, Forward: new(false)}
	play(t, in(moqt.Draft21, setting{}), func(p *script) {
		_, e := p.subscribed(testTrack, 1, nil)
		e.send(&moqt.StateNotify{Parameters: largest})
		p.requireOpen()
	})
	early := newHandler()
	play(t, in(moqt.Draft22, setting{cfg: Config{Role: Server, Handler: early}}), func(p *script) {
		e := p.request(&moqt.Publish{Track: testTrack})
		sub := <-early.publishes
		e.send(&moqt.StateNotify{Parameters: largest}) // before the answer
		require.NoError(p, sub.Accept(moqt.Parameters{}, nil))
		p.requireOpen()
	})
	for _, v := range laterVersions() {
		h := newHandler()
		play(t, in(v, setting{cfg: Config{Role: Server, Handler: h}}), func(p *script) {
			e := p.request(&moqt.Subscribe{Track: testTrack})
			pub := <-h.subscribes
			require.ErrorIs(p, pub.Notify(largest), ErrUnanswered)
			require.NoError(p, pub.Accept(moqt.Parameters{}, nil))
			e.receive()
			require.NoError(p, pub.Notify(largest))
			require.NoError(p, pub.Done(moqt.DoneTrackEnded, ""))
			if v >= moqt.Draft20 {
				require.Equal(p, &moqt.StateNotify{Parameters: largest}, e.receive())
			}
			require.IsType(p, &moqt.PublishDone{}, e.receive())
		})
	}
}

// TestAnswerToPublish checks that the parameters of a subscriber follow PUBLISH_OK where that has none.
func TestAnswerToPublish(t *testing.T) {
	h := newHandler()
	play(t, in(moqt.Draft22, setting{cfg: Config{Role: Server, Handler: h}}), func(p *script) {
		e := p.request(&moqt.Publish{Track: testTrack, Parameters: moqt.Parameters{Forward: new(false)}})
		sub := <-h.publishes
		require.NoError(p, sub.Accept(moqt.Parameters{
			Forward: new(true), SubscriberPriority: new(uint8(3)), Expires: new(uint64(5)),
		}, nil))
		require.Equal(p, &moqt.RequestOK{Parameters: moqt.Parameters{Expires: new(uint64(5))}}, e.receive())
		require.Equal(p, moqt.Parameters{Forward: new(true), SubscriberPriority: new(uint8(3))},
			e.receive().(*moqt.RequestUpdate).Parameters)
		e.send(&moqt.RequestOK{})

		e = p.request(&moqt.Publish{Track: otherTrack, TrackAlias: 1})
		sub = <-h.publishes
		require.NoError(p, sub.Accept(moqt.Parameters{Forward: new(true)}, nil))
		require.Equal(p, &moqt.RequestOK{}, e.receive())
		e.send(&moqt.PublishDone{})
		e.requireEOF() // nothing had to be updated
	})
	play(t, in(moqt.Draft22, setting{}), func(p *script) {
		pub, err := p.s.Publish(p.Context(), moqt.Publish{Track: testTrack, Parameters: moqt.Parameters{
			Forward: new(false), SubscriberPriority: new(uint8(9)),
		}})
		require.NoError(p, err)
		e := p.accept()
		require.Equal(p, uint8(9), *e.receive().(*moqt.Publish).Parameters.SubscriberPriority)
		e.send(&moqt.RequestOK{})
		require.NoError(p, pub.Wait(p.Context()))
		require.False(p, pub.Forward(), "PUBLISH_OK does not change it")
		require.Equal(p, uint8(9), *pub.Parameters().SubscriberPriority)
	})
}

// TestLimits checks MAX_REQUEST_UPDATES and MAX_FILTER_RANGES, of both ends.
func TestLimits(t *testing.T) {
	filter := func(ranges ...moqt.ValueRange) moqt.Parameters {
		return moqt.Parameters{RangeFilters: moqt.RangeFilters{{Type: moqt.ParameterObjectIDFilter, Ranges: ranges}}}
	}
	one, two := moqt.ValueRange{First: 1, Last: 2}, moqt.ValueRange{First: 5, Last: 6}
	t.Run("ours", func(t *testing.T) {
		h := newHandler()
		cfg := Config{Role: Server, Handler: h, Limits: Limits{MaxFilterRanges: 1}}
		play(t, in(moqt.Draft19, setting{cfg: cfg, silent: true}), func(p *script) {
			m, err := moqt.NewReader(p.ours, moqt.Draft19).Read()
			require.NoError(p, err)
			require.Equal(p, uint64(1), m.(*moqt.Setup).MaxFilterRanges)
			require.Equal(p, uint64(maxUnansweredUpdates), m.(*moqt.Setup).MaxRequestUpdates)
			p.setup(&moqt.Setup{})
			p.request(&moqt.Subscribe{Track: otherTrack, Parameters: filter(one, two)}).
				requireRefused(moqt.RequestInvalidFilter)
			p.request(&moqt.Subscribe{Track: otherTrack, Parameters: filter()}).
				requireRefused(moqt.RequestInvalidFilter)
			e := p.request(&moqt.Subscribe{Track: testTrack, Parameters: filter(one)})
			pub := <-h.subscribes
			require.NoError(p, pub.Accept(moqt.Parameters{}, nil))
			e.receive()
			for range maxUnansweredUpdates {
				e.update(moqt.Parameters{})
			}
			p.requireOpen()
			e.update(moqt.Parameters{})
			p.requireClosed(moqt.SessionTooManyRequestUpdates)
		})
	})
	t.Run("theirs", func(t *testing.T) {
		play(t, in(moqt.Draft19, setting{silent: true}), func(p *script) {
			_, err := p.s.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack, Parameters: filter(one)}, nil)
			require.Error(p, err, "the peer's SETUP has not come")
			p.setup(&moqt.Setup{MaxFilterRanges: 1, MaxRequestUpdates: 1})
			<-p.s.Ready()
			_, err = p.s.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack, Parameters: filter(one, two)}, nil)
			require.Error(p, err)
			sub, e := p.subscribed(testTrack, 1, nil)
			for range 2 {
				go sub.Update(p.Context(), moqt.Parameters{Forward: new(true)})
			}
			e.receive()
			synctest.Wait()
			require.Len(p, sub.sent.unanswered, 1)
			e.send(&moqt.RequestOK{})
			e.receive()
			e.send(&moqt.RequestOK{})
		})
	})
}
