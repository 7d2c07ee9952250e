package relay

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/logs/logstest"
	"sluice/internal/metrictest"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// from connects a client with an address.
func (b *bench) from(ip string, options ...func(*session.Config)) *client {
	return b.connectWith(transporttest.PipeConfig{Client: addressOf(ip)}, options...)
}

func addressOf(ip string) *net.UDPAddr { return &net.UDPAddr{IP: net.ParseIP(ip), Port: 1000} }

// turnedAway connects a client whose session the relay refuses because of a quota.
func (b *bench) turnedAway(ip string) {
	b.t.Helper()
	client, server := transporttest.Pipe(transporttest.PipeConfig{Client: addressOf(ip)})
	b.refused(b.relay.Serve(b.ctx, server), moqt.RequestExcessiveLoad)
	require.Error(b.t, client.Context().Err())
}

// exceeded checks how often a quota was exceeded.
func (b *bench) exceeded(kind charge.Kind, r charge.Resource, times int) {
	b.t.Helper()
	got := metrictest.Sum(b.t, b.relay, "sluice_relay_quota_refusals_total", string(kind), r.String())
	require.EqualValues(b.t, times, got, "%s of an %s", r, kind)
}

// publish offers a track with a name.
func (c *client) publish(name string) (*session.Publication, error) {
	p, err := c.Publish(c.b.ctx, moqt.Publish{Track: trackNamed(name)})
	require.NoError(c.b.t, err)
	err = p.Wait(c.b.ctx)
	synctest.Wait()
	return p, err
}

func trackNamed(name string) moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: moqt.Namespace{"live", "room"}, Name: name}
}

func TestQuotaOfSessionsPerAddress(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{Sessions: 2}}, func(b *bench) {
		for _, ips := range [][]string{
			{"192.0.2.1", "192.0.2.1", "192.0.2.1"},
			{"::ffff:192.0.2.2", "192.0.2.2", "192.0.2.2"},
			{"2001:db8::1", "2001:db8::ffff:0:0:1", "2001:db8::2"},
		} {
			first := b.from(ips[0])
			b.from(ips[1])
			b.turnedAway(ips[2])
			first.Session.Close(moqt.SessionNoError, "")
			<-first.result
			synctest.Wait()
			b.from(ips[2])
			b.turnedAway(ips[0])
		}
		b.from("2001:db8:0:1::1")
		b.exceeded(charge.ByAddress, charge.SessionsOpen, 6)
	})
}

// Ten hostile sessions use as much as they can: others still publish and subscribe.
func TestOneAddressLeavesTracksToOthers(t *testing.T) {
	onBench(t, Config{MaxTracks: 100, PerAddress: Quota{Tracks: 50}}, func(b *bench) {
		made := 0
		for i := range 10 {
			c := b.from("192.0.2.1")
			for j := range 20 {
				if _, err := c.publish(fmt.Sprint(i, "-", j)); err == nil {
					made++
				} else {
					b.refused(err, moqt.RequestExcessiveLoad)
				}
			}
		}
		require.Equal(t, 50, made)
		b.exceeded(charge.ByAddress, charge.TracksHeld, 150)
		p, err := b.from("192.0.2.2").publish("video")
		require.NoError(t, err)
		_, err = b.from("192.0.2.3").subscribeTo("video")
		require.NoError(t, err)
		_, err = b.from("192.0.2.1").subscribeTo("video")
		require.NoError(t, err, "the track exists already")
		require.NoError(t, p.Context().Err())
	})
}

func (c *client) subscribeTo(name string) (*session.Subscription, error) {
	s, err := c.Subscribe(c.b.ctx, moqt.Subscribe{Track: trackNamed(name)}, &sink{})
	require.NoError(c.b.t, err)
	_, err = s.Wait(c.b.ctx)
	synctest.Wait()
	return s, err
}

// TestQuotasOfRequests opens requests of one kind in two sessions of an address, until the quota is used up.
func TestQuotasOfRequests(t *testing.T) {
	type request interface{ Cancel(moqt.StreamResetCode) }
	for name, tt := range map[string]struct {
		quota    Quota
		resource charge.Resource
		open     func(*client, int) (request, error)
	}{
		"publish": {Quota{Subscriptions: 2}, charge.SubscriptionsOpen, func(c *client, i int) (request, error) {
			return c.publish(fmt.Sprint(i))
		}},
		"subscribe": {Quota{Subscriptions: 2}, charge.SubscriptionsOpen, func(c *client, i int) (request, error) {
			return c.subscribeTo(fmt.Sprint("video", i))
		}},
		"publish namespace": {Quota{Namespaces: 2}, charge.NamespacesOpen, func(c *client, i int) (request, error) {
			p, err := c.PublishNamespace(c.b.ctx, moqt.PublishNamespace{Namespace: moqt.Namespace{"x", fmt.Sprint(i)}})
			require.NoError(t, err)
			return p, p.Wait(c.b.ctx)
		}},
		"subscribe namespace": {Quota{Namespaces: 2}, charge.NamespacesOpen, func(c *client, i int) (request, error) {
			return c.watch("x", fmt.Sprint(i))
		}},
		"subscribe tracks": {Quota{Namespaces: 2}, charge.NamespacesOpen, func(c *client, i int) (request, error) {
			return c.subscribeTracks(moqt.Parameters{}, "x", fmt.Sprint(i))
		}},
		"all requests": {Quota{Requests: 2}, charge.RequestsOpen, func(c *client, i int) (request, error) {
			if i%2 == 0 {
				return c.subscribeTracks(moqt.Parameters{}, "x", fmt.Sprint(i))
			}
			return c.subscribeTo(fmt.Sprint("video", i))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{PerAddress: tt.quota, Exempt: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")}},
				func(b *bench) {
					publisher := b.from("192.0.2.9")
					for i := range 4 {
						_, err := publisher.publish(fmt.Sprint("video", i))
						require.NoError(t, err)
					}
					one, two := b.from("192.0.2.1"), b.from("192.0.2.1")
					first, err := tt.open(one, 0)
					require.NoError(t, err)
					_, err = tt.open(two, 1)
					require.NoError(t, err)
					_, err = tt.open(two, 2)
					b.refused(err, moqt.RequestExcessiveLoad)
					b.exceeded(charge.ByAddress, tt.resource, 1)
					other, err := tt.open(b.from("192.0.2.2"), 0)
					require.NoError(t, err, "another address")
					other.Cancel(moqt.ResetCancelled)
					first.Cancel(moqt.ResetCancelled)
					synctest.Wait()
					_, err = tt.open(two, 3)
					require.NoError(t, err, "what a request used is given back")
				})
		})
	}
}

func TestLimitOfRequests(t *testing.T) {
	onBench(t, Config{MaxRequests: 2}, func(b *bench) {
		first := b.from("192.0.2.1").mustWatch("a")
		b.from("192.0.2.2").announce("a")
		third := b.from("192.0.2.3")
		_, err := third.watch("a")
		b.refused(err, moqt.RequestExcessiveLoad)
		first.Cancel(moqt.ResetCancelled)
		synctest.Wait()
		require.Equal(t, 1, b.relay.accounts.OpenRequests())
		third.mustWatch("a")
	})
}

func TestRefusalsSayWhenToRetry(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{Namespaces: 1}}, func(b *bench) {
		c := b.connect()
		c.announce("a")
		_, err := c.watch("b")
		var refused *moqt.RequestError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "the quota of namespaces for this address is used up", refused.Reason)
		require.EqualValues(t, charge.Retry.Milliseconds()+1, refused.RetryInterval)
	})
}

// Two sessions of one address send requests and updates without end.
func TestQuotaOfTheRequestRate(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{RequestRate: 2}}, func(b *bench) {
		one, two := b.from("192.0.2.1"), b.from("192.0.2.1")
		for range 5 * 2 / 2 { // charge.Burst
			for _, c := range []*client{one, two} {
				_, err := c.subscribeTo("none")
				b.refused(err, moqt.RequestDoesNotExist)
			}
		}
		for _, c := range []*client{one, two} {
			_, err := c.subscribeTo("none")
			b.refused(err, moqt.RequestExcessiveLoad)
		}
		b.exceeded(charge.ByAddress, charge.RequestRate, 2)
		_, err := b.from("192.0.2.2").subscribeTo("none")
		b.refused(err, moqt.RequestDoesNotExist)
		time.Sleep(time.Second)
		_, err = one.subscribeTo("none")
		b.refused(err, moqt.RequestDoesNotExist)
	})
}

func TestQuotasPerToken(t *testing.T) {
	f := allowing("cam publish live", "viewer subscribe live", "* discover live")
	onBench(t, Config{Authorizer: f, PerToken: Quota{Sessions: 1, Tracks: 2, Subscriptions: 3}}, func(b *bench) {
		cam := func(c *session.Config) { c.Tokens = []moqt.Token{token("cam")} }
		viewer := func(c *session.Config) { c.Tokens = []moqt.Token{token("viewer")} }
		one, two := b.from("192.0.2.1", cam), b.from("192.0.2.2", cam)
		for i, name := range []string{"a", "b", "c"} {
			_, err := one.publish(name)
			if i < 2 {
				require.NoError(t, err)
			} else {
				b.refused(err, moqt.RequestExcessiveLoad)
			}
		}
		b.exceeded(charge.ByToken, charge.TracksHeld, 1)
		_, err := two.publish("d")
		b.refused(err, moqt.RequestExcessiveLoad)
		b.exceeded(charge.ByToken, charge.SessionsOpen, 1)
		_, err = two.watch("live")
		require.NoError(t, err, "anybody may do that")

		v := b.from("192.0.2.2", viewer)
		for _, name := range []string{"a", "b"} {
			_, err = v.subscribeTo(name)
			require.NoError(t, err)
		}
		one.Session.Close(moqt.SessionNoError, "")
		<-one.result
		time.Sleep(time.Minute) // the tracks' subscribers have given up
		synctest.Wait()
		_, err = two.publish("d")
		require.NoError(t, err, "the session and the tracks of the token were given back")
	})
}

// A publisher sends faster than it may: its objects wait, and none is lost. Those of others do not wait.
func TestQuotaOfUploads(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{Upload: 800_000}}, func(b *bench) { // 100 kB/s
		fast, other := &source{}, &source{}
		_, err := fast.offer(b.from("192.0.2.1"), moqt.Parameters{})
		require.NoError(t, err)
		k, _ := b.from("192.0.2.3").mustSubscribe(moqt.Parameters{})
		for id := range uint64(30) { // 1.2 MB
			go func() {
				g := fast.open(moqt.SubgroupHeader{GroupID: id})
				body := make([]byte, 40_000)
				b, _ := g.encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: uint64(len(body))})
				_, _ = g.stream.Write(append(b, body...))
				_ = g.stream.Close()
			}()
		}
		time.Sleep(time.Second)
		require.Less(t, strings.Count(k.take(), "fin"), 25)
		other.c = b.from("192.0.2.2")
		p, err := other.c.publish("other")
		require.NoError(t, err)
		go other.keep(p)
		synctest.Wait()
		j := &sink{}
		s, err := b.from("192.0.2.3").Subscribe(b.ctx, moqt.Subscribe{Track: trackNamed("other")}, j)
		require.NoError(t, err)
		_, err = s.Wait(b.ctx)
		require.NoError(t, err)
		other.group(0, 1)
		require.Equal(t, "0.0, 0 fin", j.take())
		time.Sleep(time.Minute)
		k.take()
		require.Len(t, k.headers, 30, "all have come in the end")
	})
}

func TestDatagramsBeyondTheQuotaAreDropped(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{Upload: 100_000}}, func(b *bench) { // 12.5 kB/s
		src := b.from("192.0.2.1").offers(nil)
		k, _ := b.from("192.0.2.2").mustSubscribe(moqt.Parameters{})
		payload := bytes.Repeat([]byte("x"), 1000)
		for id := range uint64(100) {
			o := moqt.ObjectDatagram{Location: at(0, id), Payload: payload}
			require.NoError(t, src.publication().SendDatagram(o))
			synctest.Wait()
		}
		got := strings.Count(k.take(), "datagram")
		require.Less(t, got, 65)
		require.Greater(t, got, 55)
		b.exceeded(charge.ByAddress, charge.UploadRate, 100-got)
	})
}

// Viewers of one address receive more than they may: the newest subscriptions end.
func TestQuotaOfDownloads(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{Download: 8_000_000}}, func(b *bench) { // 1 MB/s
		var sent atomic.Uint64 // on each connection
		b.relay.sentOn = func(transport.Conn) uint64 { return sent.Load() }
		_, err := b.from("192.0.2.1").publish("video")
		require.NoError(t, err)
		other := b.from("192.0.2.3")
		var viewers []*client
		var subs []*session.Subscription
		for range 4 {
			c := b.from("192.0.2.2")
			s, err := c.subscribeTo("video")
			require.NoError(t, err)
			viewers, subs = append(viewers, c), append(subs, s)
		}
		time.Sleep(reviewInterval / 2) // so that nothing happens while the relay reviews
		receive := func(bytes uint64) {
			sent.Add(bytes)
			time.Sleep(reviewInterval)
			synctest.Wait()
		}
		receive(1_000_000) // 4 MB of a bucket of 5 MB
		for _, s := range subs {
			require.NoError(t, s.Context().Err())
		}
		receive(1_000_000) // more than is left
		for _, s := range subs[1:] {
			b.done(s, moqt.DoneExcessiveLoad)
		}
		_, err = viewers[1].subscribeTo("video")
		b.refused(err, moqt.RequestExcessiveLoad)
		_, err = other.subscribeTo("video")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, subs[0].Context().Err())
		_, err = viewers[1].subscribeTo("video")
		require.NoError(t, err)
	})
}

// A viewer leaves before the relay counts the bytes that it was sent.
func TestShortSessionsCountForTheQuota(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{Download: 8_000_000}}, func(b *bench) {
		b.relay.sentOn = func(transport.Conn) uint64 { return 2_000_000 }
		_, err := b.from("192.0.2.1").publish("video")
		require.NoError(t, err)
		for range 3 { // 6 MB of a bucket of 5 MB
			c := b.from("192.0.2.2")
			_, err = c.subscribeTo("video")
			require.NoError(t, err)
			c.Session.Close(moqt.SessionNoError, "")
			<-c.result
			synctest.Wait()
		}
		_, err = b.from("192.0.2.2").subscribeTo("video")
		b.refused(err, moqt.RequestExcessiveLoad)
	})
}

// TestFetchWaitsForTheQuota checks that a FETCH that receives more than its address may waits, and completes. Objects
// that do not pass its filters count as sent, and no more of them do once it is cancelled.
func TestFetchWaitsForTheQuota(t *testing.T) {
	none := filter(moqt.ParameterObjectIDFilter, 100, 100)
	for name, tt := range map[string]struct {
		filters   moqt.RangeFilters
		cancelled bool
		want      string
	}{
		"everything": {nil, false, "3.0, 3.1, 3.2, 3.3, 3.4, fin"},
		"filtered":   {none, false, "fin"},
		"cancelled":  {none, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{PerAddress: Quota{Download: 100_000}}, func(b *bench) { // 12.5 kB/s, 62.5 kB at once
				src, _, _, _, _ := b.live(nil)
				g := src.open(moqt.SubgroupHeader{GroupID: 3})
				for id := range uint64(5) {
					g.write(moqt.ObjectHeader{ObjectID: id}, "object "+strings.Repeat("x", 50_000))
				}
				g.fin()
				c := b.connectWith(transporttest.PipeConfig{
					Client: addressOf("192.0.2.2"), Protocol: moqt.Draft22.ALPN(),
				})
				m := standalone(at(3, 0), at(3, 5))
				m.Parameters.RangeFilters = tt.filters
				f, err := c.Fetch(b.ctx, m)
				require.NoError(t, err)
				if tt.cancelled {
					_, err = f.Wait(b.ctx)
					require.NoError(t, err)
					synctest.Wait()
					f.Cancel(moqt.ResetCancelled)
					time.Sleep(10 * time.Second) // enough for two objects, not for five
					c.mustSubscribe(moqt.Parameters{})
					return
				}
				done := make(chan got, 1)
				go func() { done <- c.collect(f, moqt.Ascending) }()
				synctest.Wait()
				require.Empty(t, done)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Len(t, done, 1)
				all := <-done
				require.NoError(t, all.err)
				require.Equal(t, tt.want, all.objects)
			})
		})
	}
}

func TestOffersCountForTheQuota(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{Subscriptions: 2}}, func(b *bench) {
		c := b.from("192.0.2.1")
		o := c.acceptOffers(&offered{})
		c.mustSubscribeTracks(moqt.Parameters{}, "live")
		for i, ip := range []string{"192.0.2.2", "192.0.2.3", "192.0.2.4"} {
			_, err := b.from(ip).publish(fmt.Sprint(i))
			require.NoError(t, err)
		}
		require.Len(t, o.subs, 2)
		require.Len(t, c.blocked, 1)
	})
}

// TestAccountsAreForgotten leaves and comes back: the request rate is not as good as new at once.
func TestAccountsAreForgotten(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{RequestRate: 1}}, func(b *bench) {
		c := b.from("192.0.2.1")
		for range 5 {
			_, err := c.subscribeTo("none")
			b.refused(err, moqt.RequestDoesNotExist)
		}
		c.Session.Close(moqt.SessionNoError, "")
		<-c.result
		synctest.Wait()
		c = b.from("192.0.2.1")
		_, err := c.subscribeTo("none")
		b.refused(err, moqt.RequestExcessiveLoad)
		c.Session.Close(moqt.SessionNoError, "")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(t, b.relay.accounts.Count())
	})
}

// A warning names the account and the flag, and comes once a minute.
func TestWarningsAboutQuotas(t *testing.T) {
	var out logstest.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	onBench(t, Config{PerAddress: Quota{Sessions: 1}, Logger: log, Authorizer: AllowAll{}}, func(b *bench) {
		b.from("192.0.2.1")
		for range 3 {
			b.turnedAway("192.0.2.1")
		}
		require.Equal(t, 1, strings.Count(out.String(), "\n"))
		require.Contains(t, out.String(),
			`msg="a quota is used up" address=192.0.2.1/32 quota=sessions limit=1 flag=--quota-per-address`)
		time.Sleep(time.Minute)
		b.turnedAway("192.0.2.1")
		require.Equal(t, 2, strings.Count(out.String(), "\n"))
	})
}

func TestQuotasAreChecked(t *testing.T) {
	for want, cfg := range map[string]Config{
		"PerAddress: upload: 1: must be between": {PerAddress: Quota{Upload: 1}},
		"PerToken: download: 5: must be between": {PerToken: Quota{Download: 5}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// An exempt address may be that of a relay: its sessions have more requests open than those of others.
func TestRequestsOfExemptAddresses(t *testing.T) {
	for exempt, want := range map[string]bool{"127.0.0.0/8": true, "192.0.2.0/24": false} {
		cfg := Config{Exempt: []netip.Prefix{netip.MustParsePrefix(exempt)}}
		cfg.Session.MaxNamespaces = 1
		onBench(t, cfg, func(b *bench) {
			c := b.connect()
			c.announce("one")
			p, err := c.PublishNamespace(b.ctx, moqt.PublishNamespace{Namespace: moqt.Namespace{"two"}})
			require.NoError(t, err)
			require.Equal(t, want, p.Wait(b.ctx) == nil)
		})
	}
}

// A publisher opens streams without end, which count for those who subscribe to them, but for the first eight.
func TestQuotaOfStreams(t *testing.T) {
	onBench(t, Config{PerAddress: Quota{Streams: 1}}, func(b *bench) {
		src := b.next(nil)
		c := b.from("192.0.2.1")
		k, s := c.mustSubscribe(moqt.Parameters{})
		other, _ := b.from("192.0.2.1").mustSubscribe(moqt.Parameters{
			Filter: &moqt.Filter{Type: moqt.FilterAbsoluteStart, Start: at(9, 0)},
		})
		var open []*subgroupStream
		for group := range uint64(9) {
			open = append(open, src.open(moqt.SubgroupHeader{GroupID: group}).object(0))
			require.Equal(t, fmt.Sprintf("%d.0", group), k.take())
		}
		open = append(open, src.open(moqt.SubgroupHeader{GroupID: 9}).object(0))
		b.done(s, moqt.DoneExcessiveLoad)
		require.Contains(t, k.take(), "8 reset 9")
		require.Equal(t, "9.0", other.take(), "it has few streams")
		b.exceeded(charge.ByAddress, charge.StreamsOpen, 1)
		for _, g := range open {
			g.fin()
		}
		k, _ = c.mustSubscribe(moqt.Parameters{})
		require.Equal(t, "9.0, 9 fin", k.take(), "there is room again")
	})
}
