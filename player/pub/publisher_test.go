package pub

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/catalog"
	"sluice/player/client"
	"sluice/transport"
	"sluice/transport/transporttest"
)

var liveDemo = moqt.Namespace{"live", "demo"}

func name(track string) moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: liveDemo, Name: track}
}

// peer is the relay's end of a publisher's session.
type peer struct {
	pipe transporttest.PipeConfig
	session.Unsupported
	t       *testing.T
	conn    *transporttest.Conn
	session *session.Session
	refuse  *moqt.RequestError
	offers  chan *session.Subscription
	tokens  []moqt.Token
	stats   Stats
	done    chan error
	stop    context.CancelFunc
}

func (p *peer) HandlePublishNamespace(n *session.IncomingPublishNamespace) {
	p.tokens = n.Tokens()
	if p.refuse != nil {
		require.NoError(p.t, n.Reject(p.refuse))
		return
	}
	require.NoError(p.t, n.OK())
}

func (p *peer) HandlePublish(s *session.Subscription) { p.offers <- s }

// start runs a publisher of the clip whose relay is p, from group 0 on by default. It must be called in a bubble of
// synctest.
func (p *peer) start(t *testing.T, cfg PublisherConfig) *peer {
	t.Helper()
	cfg.FirstGroup = cmp.Or(cfg.FirstGroup, new(uint64(0)))
	return p.run(t, cfg)
}

func (p *peer) run(t *testing.T, cfg PublisherConfig) *peer {
	t.Helper()
	p.t, p.offers, p.done = t, make(chan *session.Subscription, 8), make(chan error, 1)
	cfg.Namespace = liveDemo
	if cfg.Open == nil {
		cfg.Open = openFile(clip)
	}
	cfg.Client.URL, cfg.Client.ReconnectTimeout = "moqt://relay.example", -1
	cfg.Client.Logger = slog.New(slog.DiscardHandler)
	cfg.Client.Dial = func(context.Context, string, transport.ClientConfig) (transport.Conn, error) {
		near, far := transporttest.Pipe(p.pipe)
		s, err := session.New(far, session.Config{Role: session.Server, Handler: p, Logger: cfg.Client.Logger})
		require.NoError(t, err)
		p.conn, p.session = far, s
		go func() { _ = s.Run(context.Background()) }()
		return near, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.stop = cancel
	var running sync.WaitGroup
	running.Go(func() { p.done <- Run(ctx, cfg, &p.stats) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	synctest.Wait()
	return p
}

// received is what a subscription got, by group and subgroup.
type received struct {
	mu      sync.Mutex
	objects map[moqt.Location][]byte
	headers map[moqt.Location]moqt.SubgroupHeader // by group and subgroup
	ends    map[moqt.Location]uint64              // ends of groups, and in which subgroup they are marked
	resets  int

	datagrams []moqt.ObjectDatagram
}

func newReceived() *received {
	return &received{
		objects: make(map[moqt.Location][]byte), headers: make(map[moqt.Location]moqt.SubgroupHeader),
		ends: make(map[moqt.Location]uint64),
	}
}

func (r *received) HandleSubgroup(g *session.Subgroup) {
	r.mu.Lock()
	r.headers[moqt.Location{Group: g.Header.GroupID, Object: g.Header.SubgroupID}] = g.Header
	r.mu.Unlock()
	all, err := io.ReadAll(g)
	parser := moqt.NewSubgroupParser(moqt.DataLayout1, g.Header, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.resets++
	}
	for rest := all; ; {
		o, n, err := parser.Next(rest)
		if err != nil || o.End > int64(len(all)) {
			return
		}
		rest = rest[n:]
		at := moqt.Location{Group: g.Header.GroupID, Object: o.ObjectID}
		if o.Status == moqt.StatusEndOfGroup {
			r.ends[at] = g.Header.SubgroupID
		} else {
			r.objects[at] = all[o.PayloadStart:o.End]
		}
	}
}

func (r *received) HandleDatagram(o *moqt.ObjectDatagram) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.datagrams = append(r.datagrams, *o)
}

func (r *received) has(l moqt.Location) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.objects[l]
	return ok
}

func (r *received) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.objects)
}

func (p *peer) subscribe(track string, parameters moqt.Parameters) (*session.Subscription, *received, error) {
	r := newReceived()
	s, err := p.session.Subscribe(p.t.Context(), moqt.Subscribe{Track: name(track), Parameters: parameters}, r)
	require.NoError(p.t, err)
	_, err = s.Wait(p.t.Context())
	return s, r, err
}

func filter(typ moqt.FilterType, start moqt.Location, delta uint64) moqt.Parameters {
	return moqt.Parameters{Filter: &moqt.Filter{Type: typ, Start: start, EndGroupDelta: delta}}
}

func TestPublisherServesSubscriptions(t *testing.T) {
	for name, tt := range map[string]struct {
		after      time.Duration
		track      string
		parameters moqt.Parameters
		want       []moqt.Location // some that have to be there
		not        []moqt.Location
		count      int
		done       moqt.PublishDoneCode
		refused    moqt.RequestErrorCode
	}{
		"from the beginning": {
			track: "1.m4s", want: []moqt.Location{{}, {Group: 4, Object: 49}}, count: 250, done: moqt.DoneTrackEnded,
		},
		"unfiltered: the current group, from its start": {
			after: 3 * time.Second, track: "1.m4s", want: []moqt.Location{{Group: 1}}, not: []moqt.Location{{}},
			count: 200, done: moqt.DoneTrackEnded,
		},
		"after the largest object": {
			after: 3 * time.Second, track: "1.m4s", parameters: filter(moqt.FilterLargestObject, moqt.Location{}, 0),
			want: []moqt.Location{{Group: 1, Object: 26}}, not: []moqt.Location{{Group: 1, Object: 25}}, count: 174,
			done: moqt.DoneTrackEnded,
		},
		"next group": {
			after: 3 * time.Second, track: "1.m4s", parameters: filter(moqt.FilterRelativeStart, moqt.Location{}, 0),
			want: []moqt.Location{{Group: 2}}, not: []moqt.Location{{Group: 1, Object: 49}}, count: 150,
			done: moqt.DoneTrackEnded,
		},
		"absolute": {
			track: "1.m4s", parameters: filter(moqt.FilterAbsoluteStart, moqt.Location{Group: 3, Object: 7}, 0),
			want: []moqt.Location{{Group: 3, Object: 7}}, not: []moqt.Location{{Group: 3, Object: 6}}, count: 93,
			done: moqt.DoneTrackEnded,
		},
		"range": {
			track: "1.m4s", parameters: filter(moqt.FilterAbsoluteRange, moqt.Location{Group: 2}, 1),
			want: []moqt.Location{{Group: 2}, {Group: 3, Object: 49}}, not: []moqt.Location{{Group: 4}}, count: 100,
			done: moqt.DoneSubscriptionEnded,
		},
		"range in the past": {
			after: 5 * time.Second, track: "1.m4s", parameters: filter(moqt.FilterAbsoluteRange, moqt.Location{}, 0),
			refused: moqt.RequestInvalidRange,
		},
		"audio":         {track: "2.m4s", want: []moqt.Location{{Group: 1}}, count: 470, done: moqt.DoneTrackEnded},
		"unknown track": {track: "3.m4s", refused: moqt.RequestDoesNotExist},
		"catalog, again and again for those behind a relay": {
			after: time.Second, track: catalog.CommonName,
			want: []moqt.Location{{}, {Group: 1}, {Group: 2}, {Group: 3}}, count: 4, done: moqt.DoneTrackEnded,
		},
		"catalog, from the next object on": {
			after: time.Second, track: catalog.MSFName,
			parameters: filter(moqt.FilterLargestObject, moqt.Location{}, 0),
			want:       []moqt.Location{{Group: 1}}, not: []moqt.Location{{}}, count: 4, done: moqt.DoneTrackEnded,
		},
		"a new group of the init segment": {
			after: time.Second, track: initName, parameters: moqt.Parameters{NewGroupRequest: new(uint64(0))},
			want: []moqt.Location{{}, {Group: 1}}, count: 5, done: moqt.DoneTrackEnded,
		},
		"not forwarded": {track: "1.m4s", parameters: moqt.Parameters{Forward: new(false)}, done: moqt.DoneTrackEnded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := (&peer{}).start(t, PublisherConfig{})
				time.Sleep(tt.after + time.Millisecond) // behind what is published at that time
				s, r, err := p.subscribe(tt.track, tt.parameters)
				if tt.refused != 0 {
					var refused *moqt.RequestError
					require.ErrorAs(t, err, &refused)
					require.Equal(t, tt.refused, refused.Code)
					return
				}
				require.NoError(t, err)
				<-s.Context().Done()
				var done *session.DoneError
				require.ErrorAs(t, context.Cause(s.Context()), &done)
				require.Equal(t, tt.done, done.Status)
				for _, l := range tt.want {
					require.True(t, r.has(l), l)
				}
				for _, l := range tt.not {
					require.False(t, r.has(l), l)
				}
				require.Equal(t, tt.count, r.count())
				require.Zero(t, r.resets)
				require.Equal(t, uint64(len(r.headers)), done.StreamCount)
			})
		})
	}
}

// A paused subscription gets nothing, its open stream is reset, and it continues with the next object.
func TestPublisherForwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := (&peer{}).start(t, PublisherConfig{})
		s, r, err := p.subscribe("1.m4s", moqt.Parameters{})
		require.NoError(t, err)
		time.Sleep(time.Second + 10*time.Millisecond)
		_, err = s.Update(t.Context(), moqt.Parameters{Forward: new(false)})
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		ok, err := s.Update(t.Context(), moqt.Parameters{Forward: new(true)})
		require.NoError(t, err)
		require.Equal(t, &moqt.Location{Group: 2}, ok.Parameters.LargestObject)
		<-s.Context().Done()
		require.Equal(t, 1, r.resets)
		require.True(t, r.has(moqt.Location{Group: 2, Object: 1}))
		require.False(t, r.has(moqt.Location{Group: 2, Object: 0}))
		require.False(t, r.has(moqt.Location{Group: 1, Object: 5}))
		require.Equal(t, 49+100, r.count()-26)
		require.False(t, r.headers[moqt.Location{Group: 2}].FirstObject)
	})
}

func TestPublisherAppliesNewFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := (&peer{}).start(t, PublisherConfig{})
		s, r, err := p.subscribe("1.m4s", moqt.Parameters{})
		require.NoError(t, err)
		time.Sleep(time.Second)
		_, err = s.Update(t.Context(), filter(moqt.FilterAbsoluteRange, moqt.Location{}, 1))
		require.NoError(t, err)
		<-s.Context().Done()
		require.ErrorContains(t, context.Cause(s.Context()), "SUBSCRIPTION_ENDED")
		require.Equal(t, 100, r.count())
	})
}

// fetched reads the response to a FETCH.
func (p *peer) fetch(m moqt.Fetch) (objects []moqt.FetchObject, payloads [][]byte, ok *moqt.FetchOK, err error) {
	f, err := p.session.Fetch(p.t.Context(), m)
	require.NoError(p.t, err)
	stream, err := f.Stream(p.t.Context())
	if err != nil {
		return nil, nil, nil, err
	}
	all, err := io.ReadAll(stream)
	order := m.Parameters.Order(moqt.Ascending)
	parser := moqt.NewFetchParser(p.session.Version(), order, 0)
	for b := all; len(b) > 0; {
		i, n, parseErr := parser.Next(b)
		if parseErr != nil {
			break
		}
		b = b[n:]
		if i.End > int64(len(all)) {
			break // cut off by a reset
		}
		objects = append(objects, i.FetchObject)
		payloads = append(payloads, all[i.PayloadStart:i.End])
	}
	if err != nil {
		return objects, payloads, nil, err
	}
	ok, err = f.Wait(p.t.Context())
	return objects, payloads, ok, err
}

func TestPublisherServesFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := (&peer{}).start(t, PublisherConfig{History: History{Groups: 3}})
		time.Sleep(9 * time.Second)
		standalone := func(start, end moqt.Location) moqt.Fetch {
			return moqt.Fetch{FetchType: moqt.FetchStandalone, Track: name("1.m4s"), Start: start, End: end}
		}

		objects, payloads, ok, err := p.fetch(
			standalone(moqt.Location{Group: 3, Object: 5}, moqt.Location{Group: 4, Object: 2}))
		require.NoError(t, err)
		require.Len(t, objects, 45+2)
		require.Equal(t, moqt.Location{Group: 3, Object: 5}, objects[0].Location)
		require.Equal(t, uint8(128), objects[0].Priority)
		require.Equal(t, moqt.Location{Group: 4, Object: 2}, ok.End)
		require.False(t, ok.EndOfTrack)
		require.Contains(t, string(payloads[0][:8]), "moof")

		// Objects that the history no longer keeps are unknown. The end is the largest object.
		objects, _, ok, err = p.fetch(standalone(moqt.Location{}, moqt.Location{Group: 9}))
		require.NoError(t, err)
		require.Equal(t, moqt.FetchObject{
			Kind: moqt.FetchKindUnknown, Location: moqt.Location{Group: 1, Object: 49},
		}, objects[0])
		require.Equal(t, moqt.Location{Group: 2}, objects[1].Location)
		require.Equal(t, moqt.Location{Group: 4, Object: 26}, ok.End)

		descending := standalone(moqt.Location{Group: 2}, moqt.Location{Group: 4})
		descending.Parameters.GroupOrder = new(moqt.Descending)
		objects, _, _, err = p.fetch(descending)
		require.NoError(t, err)
		require.Equal(t, moqt.Location{Group: 4}, objects[0].Location)
		require.Equal(t, moqt.Location{Group: 2, Object: 49}, objects[len(objects)-1].Location)

		descending.Start = moqt.Location{}
		_, _, _, err = p.fetch(descending)
		var reset *transport.StreamError
		require.ErrorAs(t, err, &reset)
		require.Equal(t, uint64(moqt.ResetUnknownObjectStatus), reset.Code)

		s, _, err := p.subscribe("1.m4s", filter(moqt.FilterLargestObject, moqt.Location{}, 0))
		require.NoError(t, err)
		objects, _, _, err = p.fetch(moqt.Fetch{
			FetchType: moqt.FetchRelativeJoining, JoiningRequestID: s.ID(), JoiningStart: 1,
		})
		require.NoError(t, err)
		require.Equal(t, moqt.Location{Group: 3}, objects[0].Location)
		require.Equal(t, moqt.Location{Group: 4, Object: 25}, objects[len(objects)-1].Location)

		_, _, _, err = p.fetch(standalone(moqt.Location{Group: 7}, moqt.Location{Group: 9}))
		require.ErrorContains(t, err, "INVALID_RANGE")
		f := standalone(moqt.Location{}, moqt.Location{Group: 9})
		f.Track.Name = "none"
		_, _, _, err = p.fetch(f)
		require.ErrorContains(t, err, "DOES_NOT_EXIST")
	})
}

func TestPublisherTellsTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := (&peer{}).start(t, PublisherConfig{FirstGroup: new(uint64(40))})
		time.Sleep(3*time.Second + time.Millisecond)
		ok, err := p.session.TrackStatus(t.Context(), moqt.TrackStatus{Track: name("1.m4s")})
		require.NoError(t, err)
		require.Equal(t, &moqt.Location{Group: 41, Object: 25}, ok.Parameters.LargestObject)
		_, err = p.session.TrackStatus(t.Context(), moqt.TrackStatus{
			Track: moqt.FullTrackName{Namespace: moqt.Namespace{"x"}, Name: "1.m4s"},
		})
		require.ErrorContains(t, err, "DOES_NOT_EXIST")
	})
}

// Objects must not change, so a publisher that starts again has larger group ids, whatever the relay still knows.
func TestPublisherStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var largest [2]*moqt.Location
		for i := range largest {
			p := (&peer{}).run(t, PublisherConfig{})
			time.Sleep(3 * time.Second)
			ok, err := p.session.TrackStatus(t.Context(), moqt.TrackStatus{Track: name("1.m4s")})
			require.NoError(t, err)
			largest[i] = ok.Parameters.LargestObject
			p.stop()
			require.NoError(t, <-p.done)
		}
		require.Less(t, largest[0].Group+1, largest[1].Group)
	})
}

func TestPublisherOffersTracks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := moqt.Token{AliasType: moqt.AliasUseValue, Value: []byte("secret")}
		cfg := PublisherConfig{Publish: true, Client: client.SessionConfig{Tokens: []moqt.Token{token}}}
		p := (&peer{}).start(t, cfg)
		require.Equal(t, []moqt.Token{token}, p.tokens)
		got := map[string]*received{}
		for range 6 {
			s := <-p.offers
			r := newReceived()
			if s.Track().Name == "2.m4s" {
				require.NoError(t, s.Reject(&moqt.RequestError{Code: moqt.RequestUninterested}))
			} else {
				require.NoError(t, s.Accept(moqt.Parameters{}, r))
				got[s.Track().Name] = r
			}
			synctest.Wait()
		}
		require.NoError(t, <-p.done)
		require.Equal(t, 250, got["1.m4s"].count())
		require.Equal(t, 4, got[catalog.CommonName].count(), "it is repeated every three seconds")
		require.Len(t, got, 5)
	})
}

func TestPublisherIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := (&peer{
			refuse: &moqt.RequestError{Code: moqt.RequestUnauthorized, Reason: "who are you?"},
		}).start(t, PublisherConfig{})
		err := <-p.done
		var refused *RefusedError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, "publish namespace live-demo: request refused: UNAUTHORIZED: who are you?")
	})
}

// A subscriber that does not read misses the objects older than the delivery timeout, and no others.
func TestPublisherDeliveryTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := (&peer{}).start(t, PublisherConfig{ObjectTimeout: 500 * time.Millisecond})
		s, r, err := p.subscribe("1.m4s", moqt.Parameters{})
		require.NoError(t, err)
		require.Equal(t, uint64(500), s.Properties().ObjectDeliveryTimeout())
		p.conn.Pause()
		time.Sleep(5 * time.Second)
		p.conn.Resume()
		<-s.Context().Done()
		require.False(t, r.has(moqt.Location{Group: 0, Object: 49}), "the stream of group 0 was blocked for seconds")
		require.True(t, r.has(moqt.Location{Group: 3}))
		require.True(t, r.has(moqt.Location{Group: 4, Object: 49}))
	})
}

// Without a timeout, a subscriber that falls behind by the whole history is dropped, as is one that lacks objects of a
// group which are not kept any more.
func TestPublisherDropsSlowSubscribers(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg   PublisherConfig
		pause time.Duration
		pipe  transporttest.PipeConfig
	}{
		"groups": {cfg: PublisherConfig{Loop: true, History: History{Groups: 3}}, pause: 15 * time.Second},
		"a long group": {
			cfg: PublisherConfig{History: History{Bytes: 20_000}}, pause: 700 * time.Millisecond,
			pipe: transporttest.PipeConfig{StreamWindow: 1000},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := (&peer{pipe: tt.pipe}).start(t, tt.cfg)
				s, _, err := p.subscribe("1.m4s", moqt.Parameters{})
				require.NoError(t, err)
				p.conn.Pause()
				time.Sleep(tt.pause)
				p.conn.Resume()
				<-s.Context().Done()
				require.ErrorContains(t, context.Cause(s.Context()), "TOO_FAR_BEHIND")
			})
		})
	}
}

func TestRunChecksItsConfig(t *testing.T) {
	for want, cfg := range map[string]PublisherConfig{
		"no input":     {Namespace: liveDemo},
		"no namespace": {Open: openFile(clip)},
		"input: not fragmented": {
			Namespace: liveDemo,
			Open:      func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte("#EXTM3U\n"))), nil },
		},
	} {
		require.ErrorContains(t, Run(t.Context(), cfg, &Stats{}), want)
	}
}
