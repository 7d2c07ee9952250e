package relay

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/metrictest"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/hub"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// pipedLink is a link between two relays of a test.
type pipedLink struct {
	client, server *Neighbor
	here, there    *transporttest.Conn
}

// link connects two relays, as processes of which one replaces the other.
func link(old, next *bench) *pipedLink {
	here, there := transporttest.Pipe(transporttest.PipeConfig{})
	secret := []byte("secret")
	client, err := next.relay.neighbors.NewLink(here, session.Client, secret)
	require.NoError(next.t, err)
	server, err := old.relay.neighbors.NewLink(there, session.Server, secret)
	require.NoError(old.t, err)
	go client.Run(next.ctx)
	go server.Run(old.ctx)
	<-client.Ready()
	<-server.Ready()
	return &pipedLink{client, server, here, there}
}

// cut ends a link as a crash of either process would.
func (l *pipedLink) cut() {
	l.here.Vanish()
	l.there.Vanish()
	l.client.peer.Session.Close(moqt.SessionInternalError, "")
	l.server.peer.Session.Close(moqt.SessionInternalError, "")
	synctest.Wait()
}

// onTwo runs a test with an old process and the next one, in either role.
func onTwo(t *testing.T, f func(here, there *bench)) {
	for name, i := range map[string]int{"old to next": 0, "next to old": 1} {
		t.Run(name, func(t *testing.T) {
			onBenches(t, Config{}, 2, func(bs []*bench) {
				link(bs[0], bs[1])
				f(bs[i], bs[1-i])
			})
		})
	}
}

// rendezvous is what subscribers say that wait for a publisher.
func rendezvous(d time.Duration) moqt.Parameters {
	ms := uint64(d.Milliseconds())
	return moqt.Parameters{RendezvousTimeout: &ms}
}

func TestLinkHasNoPublisher(t *testing.T) {
	onTwo(t, func(here, there *bench) {
		_, _, err := here.connect().subscribe(moqt.Parameters{})
		here.refused(err, moqt.RequestDoesNotExist)
		start := time.Now()
		_, _, err = here.connect().subscribe(rendezvous(3 * time.Second))
		here.refused(err, moqt.RequestDoesNotExist)
		require.Equal(t, 3*time.Second, time.Since(start))

		// While one waits, another one that does not is refused at once.
		waits := here.connect()
		go waits.Subscribe(here.ctx, moqt.Subscribe{Track: video, Parameters: rendezvous(time.Minute)}, &sink{})
		time.Sleep(time.Second)
		start = time.Now()
		_, _, err = here.connect().subscribe(moqt.Parameters{})
		here.refused(err, moqt.RequestDoesNotExist)
		require.Equal(t, time.Duration(0), time.Since(start))
	})
}

// The other process has a publisher just after it has refused.
func TestLinkIsAskedAgain(t *testing.T) {
	for name, publish := range publishing {
		t.Run(name, func(t *testing.T) {
			onTwo(t, func(here, there *bench) {
				_, _, err := here.connect().subscribe(moqt.Parameters{})
				here.refused(err, moqt.RequestDoesNotExist)
				src := publish(there)
				synctest.Wait()
				k, _ := here.connect().mustSubscribe(moqt.Parameters{})
				src.group(1, 1)
				require.Equal(t, "1.0, 1 fin", k.take())
			})
		})
	}
}

// sorted is take, with what came at the same time on several streams in order.
func (k *sink) sorted() string {
	got := strings.Split(k.take(), ", ")
	slices.Sort(got)
	return strings.Join(got, ", ")
}

// upstreams counts the upstream subscriptions of all tracks.
func (b *bench) upstreams() string {
	own, links := 0, 0
	for p, n := range b.relay.directory.Report().OfPeers() {
		if p.From == hub.Beside {
			links += n.Published
		} else {
			own += n.Published
		}
	}
	return fmt.Sprintf("%d publishers, %d links", own, links)
}

// The session of a publisher is lost in the middle of a group. It comes back to the other process, and goes on.
func TestPublisherComesBackToAnotherProcess(t *testing.T) {
	onTwo(t, func(here, there *bench) {
		src := here.next(nil)
		stays, s := here.connect().mustSubscribe(moqt.Parameters{})
		fed, f := there.connect().mustSubscribe(moqt.Parameters{})
		src.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0)
		require.Equal(t, "1.0", stays.take())
		src.c.Session.Close(moqt.SessionInternalError, "")
		time.Sleep(2 * time.Second)
		require.Empty(t, stays.take(), "streams wait")
		require.Equal(t, "1.0", fed.take())

		back := there.next(new(at(1, 0)))
		back.open(moqt.SubgroupHeader{GroupID: 1}).object(1).fin()
		back.group(2, 1)
		require.Equal(t, "1 fin, 1.1, 2 fin, 2.0", stays.sorted())
		require.Equal(t, "1 fin, 1.1, 2 fin, 2.0", fed.sorted())
		require.NoError(t, s.Context().Err())
		require.NoError(t, f.Context().Err())
	})
}

// Two other processes have publishers of a track, as when a publisher moves. Both bring it, for as long as they have.
func TestProcessesWithPublishersAreKept(t *testing.T) {
	onBenches(t, Config{}, 3, func(bs []*bench) {
		link(bs[0], bs[1])
		link(bs[0], bs[2])
		var sources []*source
		for _, b := range bs[1:] {
			src := b.next(nil)
			sources = append(sources, src)
		}
		k, _ := bs[0].connect().mustSubscribe(moqt.Parameters{})
		time.Sleep(time.Minute) // more than Config.Linger
		for _, b := range bs[1:] {
			require.Equal(t, uint64(1), b.relay.directory.Subscriptions.Load(), "it is not ended and begun again")
		}
		sources[0].group(1, 1)
		sources[1].group(2, 1)
		require.Equal(t, "1.0, 1 fin, 2.0, 2 fin", k.take())
	})
}

// A publisher brings a group to one process, and moves to another one, before the third process knows of it. That has
// missed the group, and asks both: only the first has it.
func TestMissedAtAnotherProcess(t *testing.T) {
	onBenches(t, Config{}, 3, func(bs []*bench) {
		link(bs[0], bs[1])
		link(bs[0], bs[2])
		publish := func(b *bench, group uint64, largest *moqt.Location) *source {
			src := b.next(largest)
			src.group(group, 1)
			synctest.Wait()
			return src
		}
		first := publish(bs[1], 0, nil)
		k, _ := bs[0].connect().mustSubscribe(moqt.Parameters{})
		first.group(1, 1)
		require.Contains(t, k.take(), "1.0, 1 fin")
		require.NoError(t, first.publication().Done(moqt.DoneGoingAway, ""))
		largest := []moqt.Location{at(1, 0), at(3, 0)}
		second := publish(bs[1], 2, &largest[0])
		require.NoError(t, second.publication().Done(moqt.DoneGoingAway, ""))
		third := publish(bs[2], 3, &largest[1])
		time.Sleep(500 * time.Millisecond)
		third.group(4, 1)
		require.Contains(t, k.take(), "2.0")
	})
}

// whole sends a group with one object, which says that it is the last one.
func (s *source) whole(group uint64) {
	s.open(moqt.SubgroupHeader{GroupID: group, FirstObject: true, EndOfGroup: true}).object(0).fin()
}

// A publisher has moved, and has left groups with two other processes. A FETCH asks both for what it lacks, whichever
// it asks first.
func TestFetchFromSeveralProcesses(t *testing.T) {
	for name, first := range map[string]int{"the one with the ends": 1, "the one with the middle": 2} {
		t.Run(name, func(t *testing.T) {
			onBenches(t, Config{}, 3, func(bs []*bench) {
				link(bs[0], bs[1])
				link(bs[0], bs[2])
				ends, middle := bs[first].next(nil), bs[3-first].next(nil)
				ends.whole(1)
				middle.whole(2)
				middle.whole(3)
				ends.whole(4)
				bs[0].next(nil).whole(5)
				got := bs[0].connect().fetch(standalone(at(1, 0), at(4, 0))).objects
				require.Equal(t, "1.0, 2.0, 3.0, unknown to 3.max, 4.0, unknown to 4.max, fin", got)
			})
		})
	}
}

// A process has crashed a moment ago, which takes seconds to be noticed. A FETCH asks the others meanwhile.
func TestFetchBesideACrash(t *testing.T) {
	for _, crashed := range []int{1, 2} {
		t.Run(fmt.Sprint("link ", crashed), func(t *testing.T) {
			onBenches(t, Config{}, 3, func(bs []*bench) {
				links := []*pipedLink{nil, link(bs[0], bs[1]), link(bs[0], bs[2])}
				bs[3-crashed].next(nil).whole(1)
				links[crashed].here.Vanish()
				start := time.Now()
				require.Equal(t, "1.0, fin", bs[0].connect().fetch(standalone(at(1, 0), at(1, 0))).objects)
				require.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
			})
		})
	}
}

// A publisher has moved to this process. A group that it has sent to the other one before arrives there late, where
// nobody may be subscribed any more.
func TestFetchOfWhatArrivesAtAnotherProcess(t *testing.T) {
	for _, forward := range []bool{true, false} {
		onTwo(t, func(here, there *bench) {
			before := &source{}
			_, err := before.offer(there.connect(), moqt.Parameters{Forward: &forward})
			require.NoError(t, err)
			before.whole(1)
			here.next(nil).whole(3)
			c := here.connect()
			f, err := c.Fetch(here.ctx, standalone(at(1, 0), at(2, 0)))
			require.NoError(t, err)
			time.Sleep(time.Second)
			before.whole(2)
			require.Equal(t, "1.0, 2.0, unknown to 2.max, fin", c.collect(f, moqt.Ascending).objects)
		})
	}
}

// All clients have left a process that was replaced. One of them fetches what it lacks from the next process, which
// asks the old one.
func TestReplacedProcessIsFetchedFrom(t *testing.T) {
	onBenches(t, Config{}, 2, func(bs []*bench) {
		old, next := bs[0], bs[1]
		link(old, next)
		src := old.next(nil)
		src.whole(1)
		drained := make(chan struct{})
		go func() {
			old.relay.DrainSome(old.ctx, "", time.Minute, func(string) bool { return true })
			close(drained)
		}()
		src.c.Session.Close(moqt.SessionNoError, "")
		time.Sleep(2 * time.Second)
		require.Equal(t, "1.0, fin", next.connect().fetch(standalone(at(1, 0), at(1, 0))).objects)
		start := time.Now()
		<-drained
		require.Greater(t, time.Since(start), lingerTime/2)
	})
}

// A publisher moves to another process. What the first process has brought has a gap: a group is on its way still. The
// other one says that it is as far as that group, and was not restarted.
func TestGapIsNoRestart(t *testing.T) {
	onBenches(t, Config{}, 3, func(bs []*bench) {
		link(bs[0], bs[1])
		link(bs[0], bs[2])
		first := bs[1].next(nil)
		k, _ := bs[0].connect().mustSubscribe(moqt.Parameters{})
		first.group(0, 1)
		first.group(2, 1)
		require.Equal(t, "0.0, 0 fin, 2.0, 2 fin", k.take())
		require.NoError(t, first.publication().Done(moqt.DoneGoingAway, ""))
		largest := at(1, 0)
		second := bs[2].next(&largest)
		time.Sleep(500 * time.Millisecond)
		for group := uint64(1); group < 4; group++ {
			second.group(group, 1)
		}
		got := k.take()
		require.Contains(t, got, "1.0")
		require.NotContains(t, got, "2.0", "it came before")
		require.Contains(t, got, "3.0")
	})
}

// A publisher moves to a process that has its track by a link, from a group on that began while the publisher's PUBLISH
// was on its way. It was not restarted, unless it comes long after the link's track.
func TestMoveIsNoRestart(t *testing.T) {
	for after, want := range map[time.Duration]string{
		time.Millisecond: "1 fin, 1.0, 3 fin, 3.0",
		3 * time.Second:  "1 fin, 1.0, 2 fin, 2.0, 3 fin, 3.0",
	} {
		t.Run(after.String(), func(t *testing.T) {
			onTwo(t, func(here, there *bench) {
				src := there.next(nil)
				src.group(2, 1)
				k, _ := here.connect().mustSubscribe(moqt.Parameters{})
				require.Equal(t, "2.0, 2 fin", k.take())
				require.NoError(t, src.publication().Done(moqt.DoneGoingAway, ""))
				time.Sleep(after)
				_, err := src.offer(here.connect(), moqt.Parameters{LargestObject: new(at(1, 0))})
				require.NoError(t, err)
				for group := uint64(1); group <= 3; group++ {
					src.group(group, 1)
				}
				require.Equal(t, want, k.sorted())
			})
		})
	}
}

// Each of three processes has a subscriber, and the publisher moves from one to the other. Objects cross one link at
// most.
func TestLinksDoNotFeedLinks(t *testing.T) {
	onBenches(t, Config{}, 3, func(bs []*bench) {
		link(bs[0], bs[1])
		link(bs[0], bs[2])
		link(bs[1], bs[2])
		src := bs[0].next(nil)
		var sinks []*sink
		for _, b := range bs {
			k, _ := b.connect().mustSubscribe(moqt.Parameters{})
			sinks = append(sinks, k)
		}
		src.group(0, 1)
		for i, next := range []*bench{bs[1], bs[2], bs[0]} {
			for _, k := range sinks {
				require.Equal(t, fmt.Sprintf("%d.0, %[1]d fin", i), k.take())
			}
			moved := &source{}
			largest := at(uint64(i), 0)
			_, err := moved.offer(next.connect(), moqt.Parameters{LargestObject: &largest})
			require.NoError(t, err)
			src.publication().Done(moqt.DoneGoingAway, "")
			time.Sleep(500 * time.Millisecond)
			for _, b := range bs {
				want := "0 publishers, 1 links"
				if b == next {
					want = "1 publishers, 0 links"
				}
				require.Equal(t, want, b.upstreams())
			}
			src = moved
			src.group(uint64(i+1), 1)
		}
		src.c.Session.Close(moqt.SessionInternalError, "")
		synctest.Wait()
		for _, b := range bs {
			_, _, err := b.connect().subscribe(moqt.Parameters{})
			b.refused(err, moqt.RequestDoesNotExist)
			require.Less(t, b.relay.directory.Subscriptions.Load(), uint64(50), "they do not ask without end")
		}
	})
}

// While a publisher stays with one process, another peer of the other process offers the same track with other objects.
func TestImpostorAtAnotherProcess(t *testing.T) {
	onTwo(t, func(here, there *bench) {
		src := here.next(nil)
		fed, f := there.connect().mustSubscribe(moqt.Parameters{})
		src.group(7, 1)
		bad := there.next(nil)
		bad.open(moqt.SubgroupHeader{GroupID: 7, FirstObject: true}).write(moqt.ObjectHeader{}, "forged")
		require.Nil(t, bad.publication(), "the impostor is excluded")
		src.group(8, 1)
		require.Equal(t, "7.0, 7 fin, 8.0, 8 fin", fed.take())
		require.NoError(t, f.Context().Err())
	})
}

func TestLinkNeedsTheSecret(t *testing.T) {
	for name, tokens := range map[string][]moqt.Token{
		"none":  nil,
		"other": {{AliasType: moqt.AliasUseValue, Value: []byte("guessed")}},
		"empty": {{AliasType: moqt.AliasUseValue}},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				b.next(nil)
				here, there := transporttest.Pipe(transporttest.PipeConfig{})
				l, err := b.relay.neighbors.NewLink(there, session.Server, []byte("secret"))
				require.NoError(t, err)
				ended := make(chan error, 1)
				go func() { ended <- l.Run(b.ctx) }()
				s, err := session.New(here, session.Config{
					Path: "/", Tokens: tokens, Logger: slog.New(slog.DiscardHandler),
				})
				require.NoError(t, err)
				go s.Run(b.ctx)
				require.ErrorContains(t, <-ended, "the secret is wrong")
				<-s.Context().Done()
				var closed *transport.SessionError
				require.ErrorAs(t, context.Cause(s.Context()), &closed)
				require.Equal(t, uint64(moqt.SessionUnauthorized), closed.Code)
				require.Empty(t, b.relay.sessions.at(hub.Beside))
				require.Equal(t, 1.0, metrictest.Sum(t, b.relay, "sluice_relay_link_intruders_total"))
			})
		})
	}
}

func TestNamespacesAcrossLinks(t *testing.T) {
	onBenches(t, Config{Scope: ScopeByPath}, 3, func(bs []*bench) {
		link(bs[0], bs[1])
		l := link(bs[0], bs[2])
		link(bs[1], bs[2])
		one := bs[0].to("relay", "/a").announce("live", "one")
		watch := func(b *bench, path string) *namespaces {
			n := b.to("relay", path).mustWatch("live")
			return n
		}
		all := []*namespaces{watch(bs[0], "/a"), watch(bs[1], "/a"), watch(bs[2], "/a")}
		sees := func(want ...string) {
			t.Helper()
			for _, n := range all {
				require.ElementsMatch(t, want, n.now())
			}
		}
		sees("live-one")
		require.Empty(t, watch(bs[1], "/b").now(), "another scope")
		two := bs[1].to("relay", "/a").announce("live", "two")
		moved := bs[2].to("relay", "/a").announce("live", "one")
		bs[1].to("relay", "/a").announce(slices.Repeat([]string{"live"}, moqt.MaxNamespaceFields)...)
		require.Len(t, all[1].now(), 3)
		require.ElementsMatch(t, []string{"live-one", "live-two"}, all[0].now(), "too long for a link")
		one.Cancel(moqt.ResetCancelled)
		require.ElementsMatch(t, []string{"live-one", "live-two"}, all[0].now(), "it has moved")
		two.Cancel(moqt.ResetCancelled)
		require.ElementsMatch(t, []string{"live-one"}, all[2].now())

		l.cut()
		require.Empty(t, all[0].now())
		require.Contains(t, all[1].now(), "live-one")
		link(bs[0], bs[2])
		require.Equal(t, []string{"live-one"}, all[0].now())
		moved.Cancel(moqt.ResetCancelled)
		require.Empty(t, all[0].now())
		require.Empty(t, all[2].now())
	})
}

// A subscriber that has asked for tracks is offered those of publishers of the other process, whichever comes first:
// the request, the publisher, or the link.
func TestTracksAcrossLinks(t *testing.T) {
	const request, publisher, connection = "request", "publisher", "link"
	for _, order := range [][]string{
		{connection, request, publisher}, {connection, publisher, request}, {publisher, request, connection},
		{request, publisher, connection}, {publisher, connection, request},
	} {
		t.Run(strings.Join(order, ", "), func(t *testing.T) {
			onBenches(t, Config{Scope: ScopeByPath}, 2, func(bs []*bench) {
				here, there := bs[1], bs[0]
				c, other := here.to("relay", "/a"), here.to("relay", "/b")
				o, none := c.acceptOffers(&offered{}), other.acceptOffers(&offered{})
				src := &source{properties: moqt.Properties{0x38, 1}}
				for _, what := range order {
					switch what {
					case request:
						for _, c := range []*client{c, other} {
							c.mustSubscribeTracks(moqt.Parameters{}, "live")
						}
					case publisher:
						_, err := src.offer(there.to("relay", "/a"), moqt.Parameters{LargestObject: new(at(3, 0))})
						require.NoError(t, err)
					case connection:
						link(there, here)
					}
				}
				s := <-o.subs
				require.Equal(t, video, s.Track())
				require.Equal(t, src.properties, s.Properties())
				require.Equal(t, at(3, 0), *s.Offer().Parameters.LargestObject)
				synctest.Wait()
				src.group(4, 2)
				require.Equal(t, "4.0, 4.1, 4 fin", o.take())
				require.NoError(t, src.publication().Done(moqt.DoneTrackEnded, ""))
				synctest.Wait()
				require.Error(t, s.Context().Err())
				late := here.to("relay", "/a")
				lo := late.acceptOffers(&offered{})
				late.mustSubscribeTracks(moqt.Parameters{}, "live")
				time.Sleep(time.Minute)
				require.Empty(t, lo.subs, "it is not offered any more")
				require.Empty(t, none.subs, "another scope")
			})
		})
	}
}
