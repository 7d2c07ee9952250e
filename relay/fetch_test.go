package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
	"sluice/transport"
)

// got is the result of a FETCH.
type got struct {
	ok      *moqt.FetchOK
	objects string // "1.0, 1/2.1, datagram 1.2, absent to 1.5, unknown to 2.3, fin"
	err     error
}

func (c *client) fetch(m moqt.Fetch) got {
	f, err := c.Fetch(c.b.ctx, m)
	require.NoError(c.b.t, err)
	return c.collect(f, m.Parameters.Order(moqt.Ascending))
}

func (c *client) collect(f *session.Fetch, order moqt.GroupOrder) (g got) {
	g.ok, g.err = f.Wait(context.Background())
	if g.err != nil {
		return g
	}
	stream, err := f.Stream(context.Background())
	if err != nil {
		g.err = err
		return g
	}
	g.objects, g.err = parseFetch(stream, c.Version(), order)
	return g
}

func parseFetch(r io.Reader, v moqt.Version, order moqt.GroupOrder) (string, error) {
	p := moqt.NewFetchParser(v, order, 0)
	var out []string
	var left uint64
	text := ""
	b := make([]byte, 700)
	for {
		n, err := r.Read(b)
		for rest := b[:n]; len(rest) > 0; {
			if left > 0 {
				m := min(left, uint64(len(rest)))
				p.Next(rest[:m])
				text += string(rest[:m])
				if left -= m; left == 0 {
					out[len(out)-1] += suffix(text)
				}
				rest = rest[m:]
				continue
			}
			item, m, perr := p.Next(rest)
			if errors.Is(perr, moqt.ErrIncomplete) {
				break
			}
			if perr != nil {
				return strings.Join(out, ", "), perr
			}
			rest, left, text = rest[m:], item.PayloadLength, ""
			out = append(out, describeItem(item))
		}
		var reset *transport.StreamError
		switch {
		case errors.Is(err, io.EOF):
			return strings.Join(append(out, "fin"), ", "), nil
		case errors.As(err, &reset):
			return strings.Join(append(out, fmt.Sprint("reset ", reset.Code)), ", "), nil
		case err != nil:
			return strings.Join(out, ", "), err
		}
	}
}

func describeItem(i *moqt.FetchItem) string {
	at := fmt.Sprintf("%d.%d", i.Location.Group, i.Location.Object)
	if i.Location.Object == moqt.MaxLocation.Object {
		at = fmt.Sprintf("%d.max", i.Location.Group)
	}
	switch {
	case i.Kind == moqt.FetchKindNonExistent:
		return "absent to " + at
	case i.Kind == moqt.FetchKindUnknown:
		return "unknown to " + at
	case i.Kind == moqt.FetchKindTimedOut:
		return "timed out to " + at
	case i.Datagram:
		return "datagram " + at
	case i.SubgroupID > 0:
		return fmt.Sprintf("%d/%d.%d", i.Location.Group, i.SubgroupID, i.Location.Object)
	}
	return at
}

func standalone(start, end moqt.Location) moqt.Fetch {
	return moqt.Fetch{FetchType: moqt.FetchStandalone, Track: video, Start: start, End: end}
}

func at(group, object uint64) moqt.Location { return moqt.Location{Group: group, Object: object} }

// archive answers FETCH with objects that exist, of groups with objects 0 to size-1.
type archive struct {
	size       uint64
	largest    moqt.Location
	end        bool
	properties moqt.Properties
	mu         sync.Mutex // several requests may come at once
	requests   []moqt.Range
	orders     []moqt.GroupOrder
	cut        int // after how many objects the stream is reset; 0: not at all
	skip       func(moqt.Location) bool
	delay      time.Duration
	pause      time.Duration      // before each object
	flat       bool               // all objects are of subgroup 0; otherwise three are of each
	mark       []moqt.FetchObject // sent before the objects
}

func (a *archive) serve(f *session.IncomingFetch) {
	order := f.Message.Parameters.Order(moqt.Ascending)
	a.mu.Lock()
	a.requests, a.orders = append(a.requests, f.Range), append(a.orders, order)
	a.mu.Unlock()
	time.Sleep(a.delay)
	r := f.Range
	if a.largest.Less(r.Start) {
		f.Reject(&moqt.RequestError{Code: moqt.RequestInvalidRange})
		return
	}
	r = r.Intersect(moqt.Range{End: a.largest})
	f.OK(moqt.FetchOK{End: r.FetchEnd(), EndOfTrack: a.end && r.End == a.largest, Properties: a.properties})
	stream, err := f.OpenStream(f.Context())
	if err != nil {
		return
	}
	enc := moqt.NewFetchEncoder(f.Session().Version(), order)
	for _, m := range a.mark {
		b, _ := enc.AppendObject(nil, &m)
		stream.Write(b)
	}
	for i, l := range a.objects(r, order) {
		if a.cut > 0 && i == a.cut {
			time.Sleep(time.Second) // a reset overtakes data
			stream.CancelWrite(9)
			f.Done()
			return
		}
		time.Sleep(a.pause)
		p := payload(l.Object)
		b, err := enc.AppendObject(nil, &moqt.FetchObject{Location: l, SubgroupID: a.subgroup(l),
			PayloadLength: uint64(len(p))})
		if err != nil {
			panic(err)
		}
		stream.Write(append(b, p...))
	}
	stream.Close()
	f.Done()
}

func (a *archive) subgroup(l moqt.Location) uint64 {
	if a.flat {
		return 0
	}
	return l.Object / 3
}

func (a *archive) objects(r moqt.Range, order moqt.GroupOrder) (list []moqt.Location) {
	add := func(g uint64) {
		for o := range a.size {
			if l := at(g, o); r.Contains(l) && (a.skip == nil || !a.skip(l)) {
				list = append(list, l)
			}
		}
	}
	for i := range r.End.Group - r.Start.Group + 1 {
		if order == moqt.Descending {
			add(r.End.Group - i)
		} else {
			add(r.Start.Group + i)
		}
	}
	return list
}

// live is a publisher with a cached past: group 1 with objects 0 to 2, group 2 with 0 and 1, in arrival, and datagram
// 2.5.
func (b *bench) live(a *archive) (*source, *subgroupStream, *sink, *session.Subscription, *client) {
	pub := b.connect()
	src := pub.serve(&source{})
	if a != nil {
		pub.handler.fetch = a.serve
	}
	pub.announce("live")
	c := b.connect()
	k, s := c.mustSubscribe(moqt.Parameters{})
	src.group(1, 3)
	g := src.open(moqt.SubgroupHeader{GroupID: 2}).object(0).object(1)
	require.NoError(b.t, src.publication().SendDatagram(moqt.ObjectDatagram{Location: at(2, 5),
		Payload: []byte("object 5")}))
	synctest.Wait()
	return src, g, k, s, c
}

func TestFetchFromCache(t *testing.T) {
	tests := map[string]struct {
		start, end moqt.Location
		params     moqt.Parameters
		want       string
		okEnd      moqt.Location
		refused    moqt.RequestErrorCode
	}{
		"objects": {start: at(1, 0), end: at(1, 3), want: "1.0, 1.1, 1.2, fin", okEnd: at(1, 3)},
		"some":    {start: at(1, 1), end: at(1, 2), want: "1.1, fin", okEnd: at(1, 2)},
		"beyond the largest": {start: at(2, 0), end: at(7, 0), want: "2.0, 2.1, unknown to 2.4, datagram 2.5, fin",
			okEnd: at(2, 6)},
		"whole group, unknown":  {start: at(1, 2), end: at(1, 0), want: "1.2, unknown to 1.max, fin", okEnd: at(1, 0)},
		"before what is cached": {start: at(0, 0), end: at(1, 1), want: "unknown to 0.max, 1.0, fin", okEnd: at(1, 1)},
		"descending": {
			start: at(0, 4), end: at(2, 2), params: moqt.Parameters{GroupOrder: new(moqt.Descending)},
			want: "2.0, 2.1, 1.0, 1.1, 1.2, unknown to 0.max, fin", okEnd: at(2, 2),
		},
		"starts after the largest": {start: at(2, 6), end: at(3, 0), refused: moqt.RequestInvalidRange},
		"ends before its start":    {start: at(2, 1), end: at(1, 1), refused: moqt.RequestInvalidRange},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				b.live(nil)
				m := standalone(tt.start, tt.end)
				m.Parameters = tt.params
				g := b.connect().fetch(m)
				if tt.refused != 0 {
					b.refused(g.err, tt.refused)
					return
				}
				require.NoError(t, g.err)
				require.Equal(t, tt.want, g.objects)
				require.Equal(t, tt.okEnd, g.ok.End)
				require.False(t, g.ok.EndOfTrack)
			})
		})
	}
}

func TestFetchOfObjectsThatAreCutOff(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src, _, _, _, _ := b.live(nil)
		g := src.open(moqt.SubgroupHeader{GroupID: 3}).half(0)
		c := b.connect()
		f, err := c.Fetch(b.ctx, standalone(at(3, 0), at(3, 1)))
		require.NoError(t, err)
		synctest.Wait()
		g.reset(4)
		require.Equal(t, "3.0, reset 6", c.collect(f, moqt.Ascending).objects, "its header had arrived")
	})
}

func TestFetchFillsFromUpstream(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		a := &archive{size: 4, largest: at(2, 5), skip: func(l moqt.Location) bool { return l == at(0, 1) }}
		b.live(a)
		c := b.connect()
		g := c.fetch(standalone(at(0, 0), at(1, 0)))
		require.NoError(t, g.err)
		require.Equal(t, "0.0, 0.2, 0/1.3, 1.0, 1.1, 1.2, 1/1.3, fin", g.objects)
		require.Equal(t, []moqt.Range{{Start: at(0, 0), End: at(0, moqt.MaxLocation.Object)},
			{Start: at(1, 3), End: at(1, moqt.MaxLocation.Object)}}, a.requests)

		a.requests = nil
		g = c.fetch(standalone(at(0, 0), at(1, 0)))
		require.Equal(t, "0.0, 0.2, 0/1.3, 1.0, 1.1, 1.2, 1/1.3, fin", g.objects)
		require.Empty(t, a.requests, "what was fetched, and what does not exist, is cached")

		m := standalone(at(0, 2), at(1, 2))
		m.Parameters.GroupOrder = new(moqt.Descending)
		require.Equal(t, "1.0, 1.1, 0.2, 0/1.3, fin", c.fetch(m).objects)
	})
}

func TestFetchWithoutSubscription(t *testing.T) {
	for _, order := range []moqt.GroupOrder{moqt.Ascending, moqt.Descending} {
		t.Run(order.String(), func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				a := &archive{size: 2, largest: at(3, 1), end: true, properties: moqt.Properties{0x38, 1}}
				pub := b.connect()
				pub.handler.fetch = a.serve
				pub.announce("live")
				c := b.connect()
				m := standalone(at(1, 0), at(9, 0))
				m.Parameters.GroupOrder = &order
				g := c.fetch(m)
				require.NoError(t, g.err)
				want := "1.0, 1.1, 2.0, 2.1, 3.0, 3.1, fin"
				if order == moqt.Descending {
					want = "3.0, 3.1, 2.0, 2.1, 1.0, 1.1, fin"
				}
				require.Equal(t, want, g.objects)
				require.Equal(t, at(3, 2), g.ok.End)
				require.True(t, g.ok.EndOfTrack)
				require.Equal(t, a.properties, g.ok.Properties)
				require.Equal(t, []moqt.GroupOrder{order}, a.orders)

				m.Start, m.End = at(2, 0), at(2, 2)
				require.Equal(t, "2.0, 2.1, fin", c.fetch(m).objects)
				require.Len(t, a.requests, 1, "from the cache")

				b.refused(c.fetch(standalone(at(5, 0), at(6, 0))).err, moqt.RequestInvalidRange)
			})
		})
	}
}

func TestFetchPassesOnMarkers(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		a := &archive{size: 9, largest: at(2, 5), skip: func(l moqt.Location) bool { return l.Object < 5 },
			mark: []moqt.FetchObject{
				{Kind: moqt.FetchKindNonExistent, Location: at(0, 1)},
				{Kind: moqt.FetchKindUnknown, Location: at(0, 3)},
			}}
		b.live(a)
		m := standalone(at(0, 0), at(0, 7))
		require.Equal(t, "absent to 0.1, unknown to 0.3, 0/1.5, 0/2.6, fin", b.connect().fetch(m).objects)
		a.mark = nil
		m.Parameters.FillTimeout = new(uint64(0))
		require.Equal(t, "absent to 0.1, unknown to 0.3, 0/1.5, 0/2.6, fin", b.connect().fetch(m).objects)
		require.Len(t, a.requests, 1)
	})
}

func TestFillTimeout(t *testing.T) {
	for ms, want := range map[uint64]string{
		0:    "unknown to 0.max, 1.0, fin",
		1000: "unknown to 0.max, 1.0, fin",
		5000: "0.0, 1.0, fin",
	} {
		onBench(t, Config{}, func(b *bench) {
			b.live(&archive{size: 1, largest: at(2, 5), delay: 2 * time.Second})
			start := time.Now()
			m := standalone(at(0, 0), at(1, 1))
			m.Parameters.FillTimeout = &ms
			require.Equal(t, want, b.connect().fetch(m).objects)
			require.Equal(t, min(time.Duration(ms)*time.Millisecond, 2*time.Second), time.Since(start))
			if ms < 2000 { // since draft-20, objects missing for lack of time are marked so
				want = strings.Replace(want, "unknown", "timed out", 1)
				require.Equal(t, want, b.speaks(moqt.Draft20).fetch(m).objects)
			}
		})
	}
}

func TestFetchOfMalformedTrack(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		// The delay is for the header of the response, which a reset would overtake.
		_, _, _, s, _ := b.live(&archive{size: 9, largest: at(2, 5), flat: true, delay: time.Second})
		g := b.connect().fetch(standalone(at(1, 2), at(1, 5))) // but subgroup 0 of group 1 ended with object 2
		require.True(t, strings.HasSuffix(g.objects, "reset 18"), g.objects)
		b.done(s, moqt.DoneMalformedTrack)
	})
}

func TestMaxCacheDuration(t *testing.T) {
	props := propertiesOf(t, moqt.KeyValuePair{Type: moqt.PropertyMaxCacheDuration, Value: 3000})
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{properties: props})
		pub := src.c
		b.connect().mustSubscribe(moqt.Parameters{})
		g := src.open(moqt.SubgroupHeader{GroupID: 1}).object(0)
		time.Sleep(2 * time.Second)
		g.object(1)
		c := b.connect()
		require.Equal(t, "1.0, 1.1, fin", c.fetch(standalone(at(1, 0), at(1, 2))).objects)
		time.Sleep(2 * time.Second)
		require.Equal(t, "unknown to 1.0, 1.1, fin", c.fetch(standalone(at(1, 0), at(1, 2))).objects)
		a := &archive{size: 2, largest: at(1, 1)}
		pub.handler.fetch = a.serve
		require.Equal(t, "1.0, 1.1, fin", c.fetch(standalone(at(1, 0), at(1, 2))).objects,
			"expired objects are requested again")
	})
}

func TestFetchThatIsNotRead(t *testing.T) {
	onBench(t, Config{StallTimeout: 10 * time.Second, Cache: track.CacheConfig{Duration: time.Second}}, func(b *bench) {
		src, _, _, _, _ := b.live(nil)
		src.open(moqt.SubgroupHeader{GroupID: 3}).write(moqt.ObjectHeader{}, string(make([]byte, 1<<20))).fin()
		src.group(4, 1)
		f, err := b.connect().Fetch(b.ctx, standalone(at(3, 0), at(3, 1)))
		require.NoError(t, err)
		time.Sleep(9 * time.Second)
		require.Greater(t, b.relay.cache.Bytes(), int64(1<<20), "a reader pins it")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.NoError(t, f.Context().Err(), "the client has not noticed yet")
		require.Less(t, b.relay.cache.Bytes(), int64(100_000))
	})
}

func TestTrackStatus(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		c := b.connect()
		status := func() (*moqt.RequestOK, error) { return c.TrackStatus(b.ctx, moqt.TrackStatus{Track: video}) }
		_, err := status()
		b.refused(err, moqt.RequestDoesNotExist)

		pub := b.connect()
		asked := 0
		pub.handler.trackStatus = func(s *session.IncomingTrackStatus) {
			asked++
			s.OK(moqt.Parameters{LargestObject: &moqt.Location{Group: 8}}, moqt.Properties{0x38, 1})
		}
		src := pub.serve(&source{properties: moqt.Properties{0x38, 2}})
		pub.announce("live")
		ok, err := status()
		require.NoError(t, err)
		require.Equal(t, moqt.Location{Group: 8}, *ok.Parameters.LargestObject)
		require.Equal(t, moqt.Properties{0x38, 1}, ok.Properties)

		b.connect().mustSubscribe(moqt.Parameters{})
		src.group(9, 2)
		ok, err = status()
		require.NoError(t, err)
		require.Equal(t, at(9, 1), *ok.Parameters.LargestObject)
		require.Equal(t, moqt.Properties{0x38, 2}, ok.Properties, "the latest are passed on")
		require.Equal(t, 1, asked, "a subscription tells it")
	})
}

// A publisher that does not answer FETCH does not delay objects that it sends by subscription.
// The packet with the first object of a group is late.
func TestFetchOfWhatBeginsLate(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src, _, _, _, _ := b.live(nil)
		src.open(moqt.SubgroupHeader{
			GroupID: 3, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 1, FirstObject: true,
		}).object(1)
		result := make(chan got, 1)
		go func() { result <- b.connect().fetch(standalone(at(3, 0), at(3, 2))) }()
		synctest.Wait()
		src.open(moqt.SubgroupHeader{GroupID: 3, FirstObject: true}).object(0)
		require.Equal(t, "3.0, 3/1.1, fin", (<-result).objects)
	})
}

func TestFetchOfWhatIsArriving(t *testing.T) {
	for _, order := range []moqt.GroupOrder{moqt.Ascending, moqt.Descending} {
		onBench(t, Config{}, func(b *bench) {
			pub := b.connect()
			src := pub.serve(&source{largest: new(at(1, 1))})
			asked := make(chan struct{}, 1)
			pub.handler.fetch = func(f *session.IncomingFetch) {
				asked <- struct{}{}
				<-f.Context().Done()
			}
			pub.announce("live")
			c := b.connect()
			c.mustSubscribe(moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterLargestObject}})
			m := standalone(at(1, 0), at(1, 2))
			m.Parameters.GroupOrder = &order
			start := time.Now()
			result := make(chan got, 1)
			go func() { result <- c.fetch(m) }()
			<-asked
			src.group(1, 2)
			g := <-result
			require.NoError(t, g.err)
			require.Equal(t, "1.0, 1.1, fin", g.objects)
			require.Less(t, time.Since(start), time.Second)
		})
	}
}
