package relay

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/congestion"
	"sluice/internal/metrictest"
	"sluice/internal/rendition"
	"sluice/media"
	"sluice/moqt"
	"sluice/moqt/session"
)

// ladder publishes renditions of one content, in groups of ten objects, while the relay wants objects.
type ladder struct {
	c  *client
	mu sync.Mutex
	of map[string]*session.Publication
	at moqt.Location

	unfinished string        // the streams of this rendition do not end
	torn       time.Duration // for so long nothing comes behind the first byte of a stream
}

// ladder has a client announce the namespace of the tests, and serve renditions there.
func (b *bench) ladder() *ladder {
	l := b.connect().serveLadder()
	l.c.announce("live")
	return l
}

func (c *client) serveLadder() *ladder {
	l := &ladder{c: c, of: make(map[string]*session.Publication)}
	c.handler.subscribe = func(p *session.Publication) {
		l.mu.Lock()
		largest := l.at
		l.of[p.Track().Name] = p
		l.mu.Unlock()
		if p.Accept(moqt.Parameters{LargestObject: &largest}, nil) != nil {
			return
		}
		for {
			select {
			case <-p.Context().Done():
				return
			case u := <-p.Updates():
				_ = u.OK(moqt.Parameters{})
			}
		}
	}
	return l
}

const ladderStep = 100 * time.Millisecond

// run publishes groups, and returns when the last one has ended.
func (l *ladder) run(groups int) {
	for range groups {
		streams := map[string]*subgroupStream{}
		for object := range uint64(10) {
			opened := map[string]bool{}
			l.mu.Lock()
			l.at.Object = object
			for name, p := range l.of {
				if p.Forward() && streams[name] == nil && p.Context().Err() == nil {
					h := moqt.SubgroupHeader{GroupID: l.at.Group, FirstObject: object == 0}
					if str, err := p.OpenSubgroup(l.c.b.ctx, h); err == nil {
						opened[name] = true
						streams[name] = &subgroupStream{l.c.b.t, str, moqt.NewSubgroupEncoder(moqt.DataLayout1, h)}
					}
				}
			}
			l.mu.Unlock()
			for name, s := range streams {
				header := moqt.ObjectHeader{ObjectID: object, PayloadLength: uint64(len(name))}
				o, err := s.encoder.AppendObject(nil, header)
				require.NoError(l.c.b.t, err)
				o = append(o, name...)
				if opened[name] && l.torn > 0 {
					_, _ = s.stream.Write(o[:1])
					time.Sleep(l.torn)
					o = o[1:]
				}
				_, _ = s.stream.Write(o) // fails if the relay does not want the group
			}
			time.Sleep(ladderStep)
		}
		for name, s := range streams {
			if name != l.unfinished {
				_ = s.stream.Close()
			}
		}
		l.mu.Lock()
		l.at = moqt.Location{Group: l.at.Group + 1}
		l.mu.Unlock()
	}
}

// rendition subscribes to a track as one of a set.
func (c *client) rendition(k session.Receiver, name string, set, bitrate uint64, forward bool) *session.Subscription {
	sub, err := c.Subscribe(c.b.ctx, moqt.Subscribe{
		Track: moqt.FullTrackName{Namespace: video.Namespace, Name: name},
		Parameters: moqt.Parameters{
			Forward: &forward, Rendition: &moqt.Rendition{Set: set, Bitrate: bitrate},
			Filter: &moqt.Filter{Type: moqt.FilterRelativeStart},
		},
	}, k)
	require.NoError(c.b.t, err)
	return sub
}

// setState sets what the relay knows of the path to the client.
func (c *client) setState(s media.SubscriptionState) {
	p := c.sender()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
}

func (b *bench) subscribed(subs ...*session.Subscription) {
	for _, s := range subs {
		_, err := s.Wait(b.ctx)
		require.NoError(b.t, err)
	}
}

// The relay leaves a rendition that comes late, and returns to it: the subscriber gets each group once and whole.
func TestRenditions(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		l := b.ladder()
		subscriber := b.connect()
		peer, err := subscriber.Peer(b.ctx)
		require.NoError(t, err)
		require.True(t, peer.Renditions)

		k := &sink{}
		high := subscriber.rendition(k, "high", 1, 5_000_000, true)
		low := subscriber.rendition(k, "low", 1, 1_000_000, false)
		b.subscribed(high, low)
		go l.run(40)
		subscriber.setState(widePath)
		time.Sleep(5500 * time.Millisecond)

		subscriber.setState(latePath)
		time.Sleep(5 * time.Second)
		subscriber.setState(widePath)
		time.Sleep(25 * time.Second)
		synctest.Wait()
		changes := k.checkGroups(t)
		require.Equal(t, []string{"high", "low", "high"}, changes)

		status := RenditionStatus{
			Set: 1, Track: "live-room--high", Bitrate: 5_000_000, Renditions: 2, Switches: 2, Reason: "better",
		}
		require.Equal(t, []RenditionStatus{status}, slices.Concat(
			b.relay.Sessions()[0].Renditions, b.relay.Sessions()[1].Renditions))
		list, _, ok := b.relay.Subscribers(b.relay.Overview().Tracks[1].ID, 1)
		require.True(t, ok)
		require.Equal(t, &status, list[0].Rendition)
		high.Cancel(moqt.ResetCancelled)
		low.Cancel(moqt.ResetCancelled)
		synctest.Wait()
		const switches = "sluice_relay_rendition_switches_total"
		require.Equal(t, []float64{1, 1, 2}, []float64{
			metrictest.Sum(t, b.relay, switches, "late"), metrictest.Sum(t, b.relay, switches, "better"),
			metrictest.Sum(t, b.relay, switches), // to leave is no switch
		})
	})
}

// The relay looks at a rendition that it returns to when a part of an object has come, and not the whole: that says
// nothing about how far it is.
func TestRenditionBeginsWithinAnObject(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		publisher := b.connect()
		l := publisher.serveLadder()
		l.torn = 2 * rendition.Tick
		publisher.announce("live")
		subscriber := b.connect()
		k := &sink{}
		b.subscribed(
			subscriber.rendition(k, "high", 1, 5_000_000, true), subscriber.rendition(k, "low", 1, 1_000_000, false))
		go l.run(30)
		subscriber.setState(latePath)
		time.Sleep(9 * time.Second)
		subscriber.setState(widePath)
		time.Sleep(40 * time.Second)
		require.Equal(t, []string{"high", "low", "high"}, k.checkGroups(t))
	})
}

// stateSink also notes the Forward States that the relay tells.
type stateSink struct {
	*sink
	name string
}

func (k stateSink) HandleState(p moqt.Parameters) {
	k.note("%s forward=%v since=%d", k.name, p.ForwardState(), p.LargestObject.Group)
}

// The relay tells which Forward States it changes.
func TestRenditionsTellTheirState(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		l := b.ladder()
		subscriber := b.speaks(moqt.Draft22)
		k := &sink{}
		high := subscriber.rendition(stateSink{k, "high"}, "high", 1, 5_000_000, true)
		low := subscriber.rendition(stateSink{k, "low"}, "low", 1, 1_000_000, false)
		b.subscribed(high, low)
		go l.run(12)
		subscriber.setState(widePath)
		time.Sleep(2500 * time.Millisecond)
		require.NotContains(t, k.take(), "forward")
		subscriber.setState(latePath)
		time.Sleep(10 * time.Second)
		told := regexp.MustCompile(`\w+ forward=\w+`).FindAllString(k.take(), -1)
		require.Equal(t, []string{"low forward=true", "high forward=false"}, told)
	})
}

// checkGroups checks that all groups but the last have come once and whole, and returns the tracks in order.
func (k *sink) checkGroups(t *testing.T) (tracks []string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	got := map[string]string{}
	var largest uint64
	for _, line := range k.got {
		var at moqt.Location
		var name string
		if n, _ := fmt.Sscanf(line, "%d.%d=%s", &at.Group, &at.Object, &name); n == 3 {
			require.NotContains(t, got, at.String())
			got[at.String()] = name
			largest = max(largest, at.Group)
		}
	}
	require.Greater(t, largest, uint64(20))
	for group := uint64(1); group < largest; group++ {
		name := got[moqt.Location{Group: group}.String()]
		for object := range uint64(10) {
			at := moqt.Location{Group: group, Object: object}
			require.Equal(t, name, got[at.String()], "object %v in %v", at, k.got)
		}
		if len(tracks) == 0 || tracks[len(tracks)-1] != name {
			tracks = append(tracks, name)
		}
	}
	return tracks
}

// Sets are bounded, and ends of subscriptions free their places.
func TestRenditionLimits(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		b.ladder()
		subscriber := b.connect()
		k := &sink{}
		var subs []*session.Subscription
		for i := range 16 {
			subs = append(subs, subscriber.rendition(k, fmt.Sprint("v", i), 0, uint64(i), i == 0))
		}
		b.subscribed(subs...)
		_, err := subscriber.rendition(k, "one more", 0, 1, false).Wait(b.ctx)
		b.refused(err, moqt.RequestExcessiveLoad)
		for set := range uint64(7) {
			b.subscribed(subscriber.rendition(k, fmt.Sprint("set", set), set+1, 1<<63, true))
		}
		_, err = subscriber.rendition(k, "another set", 100, 1, false).Wait(b.ctx)
		b.refused(err, moqt.RequestExcessiveLoad)
		for _, s := range subs {
			s.Cancel(moqt.ResetCancelled)
		}
		synctest.Wait()
		b.subscribed(subscriber.rendition(k, "another set", 100, 1, false))
	})
}

// set describes the set of the only client that has one.
func (b *bench) set() RenditionStatus {
	for _, s := range b.relay.Sessions() {
		if len(s.Renditions) > 0 {
			return s.Renditions[0]
		}
	}
	b.t.Fatal("no set")
	return RenditionStatus{}
}

// awaitChange waits until another rendition is served, while the one before still is.
func (b *bench) awaitChange() {
	b.t.Helper()
	before := b.set().Track
	require.Eventually(b.t, func() bool { return b.set().Track != before }, time.Minute, ladderStep/2)
}

// If the served rendition ends just after a change, the one before goes on, and stays.
func TestFormerRenditionGoesOn(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		l := b.ladder()
		subscriber := b.connect()
		k := &sink{}
		high := subscriber.rendition(k, "high", 1, 5_000_000, false)
		b.subscribed(high, subscriber.rendition(k, "low", 1, 1_000_000, true))
		go l.run(25)
		subscriber.setState(widePath)
		b.awaitChange()
		high.Cancel(moqt.ResetCancelled)
		time.Sleep(26 * time.Second)
		require.Equal(t, []string{"low"}, k.checkGroups(t))
	})
}

// The rendition that goes on is one that can be served, or is served when it is accepted.
func TestRenditionGoesOnWhenAccepted(t *testing.T) {
	for name, third := range map[string]string{"no other": "low", "another": "middle"} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				l := b.ladder()
				publisher := l.c
				serve, accept := publisher.handler.subscribe, make(chan struct{})
				publisher.handler.subscribe = func(p *session.Publication) {
					if p.Track().Name == "low" {
						<-accept
					}
					serve(p)
				}
				subscriber := b.connect()
				k := &sink{}
				high := subscriber.rendition(k, "high", 1, 5_000_000, true)
				low := subscriber.rendition(k, "low", 1, 1_000_000, false)
				b.subscribed(high)
				if third != "low" {
					b.subscribed(subscriber.rendition(k, third, 1, 2_000_000, false))
				}
				go l.run(8)
				time.Sleep(3 * time.Second)
				high.Cancel(moqt.ResetCancelled)
				time.Sleep(3 * time.Second)
				close(accept)
				b.subscribed(low)
				time.Sleep(3 * time.Second)
				k.mu.Lock()
				defer k.mu.Unlock()
				require.Contains(t, k.got, "7.9="+third)
			})
		})
	}
}

// The Forward State of renditions is the relay's.
func TestForwardOfRenditions(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		b.ladder()
		sub := b.connect().rendition(&sink{}, "low", 1, 1, false)
		b.subscribed(sub)
		forward := true
		_, err := sub.Update(b.ctx, moqt.Parameters{Forward: &forward})
		b.refused(err, moqt.RequestNotSupported)
	})
}

const testRTT = 20 * time.Millisecond

// widePath is a path that takes all renditions.
var widePath = media.SubscriptionState{
	State: congestion.State{Window: 1 << 20, SRTT: testRTT, MinRTT: testRTT, Longest: testRTT},
}

// latePath has media come late.
var latePath = media.SubscriptionState{State: widePath.State, Lag: 2 * time.Second}

// A rendition whose groups have other ids is never chosen, and one that does not come is given up.
func TestRenditionsThatDoNotFollow(t *testing.T) {
	for name, flows := range map[string]bool{"not aligned": true, "silent": false} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				l := b.ladder()
				subscriber := b.connect()
				k := &sink{}
				b.subscribed(subscriber.rendition(k, "high", 1, 5_000_000, true))
				low := subscriber.rendition(k, "low", 1, 1_000_000, false)
				b.subscribed(low)
				l.mu.Lock()
				other := l.of["low"]
				delete(l.of, "low")
				l.mu.Unlock()
				go l.run(25)
				time.Sleep(5 * time.Second)
				subscriber.setState(media.SubscriptionState{Lag: 2 * time.Second})
				for i := range uint64(15) {
					time.Sleep(time.Second)
					if flows && other.Forward() {
						h := moqt.SubgroupHeader{GroupID: 1000 + i, FirstObject: true}
						str, err := other.OpenSubgroup(b.ctx, h)
						require.NoError(t, err)
						g := &subgroupStream{t, str, moqt.NewSubgroupEncoder(moqt.DataLayout1, h)}
						g.object(0)
						g.fin()
					}
				}
				time.Sleep(6 * time.Second)
				require.Equal(t, []string{"high"}, k.checkGroups(t))
			})
		})
	}
}
