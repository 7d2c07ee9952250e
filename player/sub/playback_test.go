package sub

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/client"
	"sluice/player/client/clienttest"
	"sluice/player/pub"
	"sluice/transport/transporttest"
)

var namespace = moqt.Namespace{"live", "demo"}

func clientConfig(r *clienttest.Relay) client.SessionConfig {
	return client.SessionConfig{URL: "moqt://relay.example", Dial: r.Dial, Logger: slog.New(slog.DiscardHandler)}
}

// publish publishes the clip in the background until the test ends, from group 0 on.
func publish(t *testing.T, r *clienttest.Relay, cfg pub.PublisherConfig) (done chan error) {
	t.Helper()
	cfg.Namespace, cfg.FirstGroup, cfg.Client = namespace, new(uint64), clientConfig(r)
	if cfg.Open == nil {
		cfg.Open = func() (io.ReadCloser, error) { return os.Open("../../testdata/clip.mp4") }
	}
	ctx, cancel := context.WithCancel(t.Context())
	done = make(chan error, 1)
	var ended sync.WaitGroup
	ended.Go(func() { done <- pub.Run(ctx, cfg, &pub.Stats{}) })
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
	synctest.Wait()
	return done
}

// play plays into memory and returns the media.
func play(t *testing.T, r *clienttest.Relay, cfg PlayerConfig) ([]byte, Result) {
	t.Helper()
	var out bytes.Buffer
	cfg.Namespace, cfg.Out, cfg.Client = namespace, &out, clientConfig(r)
	result, err := Run(t.Context(), cfg, nil)
	require.NoError(t, err)
	return out.Bytes(), result
}

func TestPlayIsByteIdentical(t *testing.T) {
	whole, _, _ := clip(t)
	for name, cfg := range map[string]pub.PublisherConfig{
		"namespace":         {Wait: true},
		"as fast as it can": {Wait: true, Unpaced: true, History: pub.History{Groups: 100}},
		"key frames apart": {
			Wait: true, Priorities: pub.Priorities{Catalog: 1, Audio: 2, Key: 3, Delta: 4, Disposable: 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{}
				done := publish(t, r, cfg)
				got, result := play(t, r, PlayerConfig{Verify: bytes.NewReader(whole)})
				require.True(t, bytes.Equal(whole, got))
				require.True(t, result.Verified())
				require.Equal(t, uint64(720), result.Objects())
				require.Equal(t, Counters{Objects: 250, Bytes: result.Tracks[0].Bytes}, result.Tracks[0].Counters)
				require.NoError(t, <-done)
			})
		})
	}
}

// Whatever happens to the sessions, nothing is lost and nothing comes twice.
func TestPlaySurvives(t *testing.T) {
	whole, _, _ := clip(t)
	for name, disturb := range map[string]func(t *testing.T, r *clienttest.Relay){
		"GOAWAY": func(t *testing.T, r *clienttest.Relay) {
			for _, s := range r.Sessions() {
				require.NoError(t, s.Goaway("", 5*time.Second))
			}
		},
		"GOAWAY to another relay": func(t *testing.T, r *clienttest.Relay) {
			for _, s := range r.Sessions() {
				require.NoError(t, s.Goaway("moqt://other.example", 0))
			}
		},
		"lost sessions": func(_ *testing.T, r *clienttest.Relay) {
			r.Close(moqt.SessionInternalError, "the relay crashed")
		},
		"a relay that is down for a while": func(_ *testing.T, r *clienttest.Relay) {
			r.SetReachable(false)
			r.Close(moqt.SessionNoError, "restart")
			time.Sleep(time.Second)
			r.SetReachable(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{}
				done := publish(t, r, pub.PublisherConfig{Wait: true})
				time.AfterFunc(4500*time.Millisecond, func() { disturb(t, r) })
				got, result := play(t, r, PlayerConfig{Verify: bytes.NewReader(whole), Hold: 10 * time.Second})
				require.True(t, result.Verified(), "%+v", result)
				require.True(t, bytes.Equal(whole, got))
				require.NoError(t, <-done)
				if name == "GOAWAY to another relay" {
					require.Equal(t, "moqt://other.example", r.Dialed[len(r.Dialed)-1])
				}
			})
		})
	}
}

func TestPlayWaitsForThePublisher(t *testing.T) {
	whole, _, _ := clip(t)
	for _, v := range []moqt.Version{moqt.Draft16, moqt.Draft18, moqt.Draft22} { // in the first one, the player waits
		t.Run(v.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &clienttest.Relay{Transport: transporttest.PipeConfig{Protocol: v.ALPN()}}
				time.AfterFunc(3*time.Second, func() { publish(t, r, pub.PublisherConfig{Wait: true}) })
				_, result := play(t, r, PlayerConfig{Wait: 5 * time.Second, Verify: bytes.NewReader(whole)})
				require.True(t, result.Verified(), "%+v", result)
			})
		})
	}
}

// A publisher that starts again may have forgotten its group ids.
func TestPlayFollowsARestartedPublisher(t *testing.T) {
	whole, _, _ := clip(t)
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{}
		gone := publish(t, r, pub.PublisherConfig{Wait: true})
		time.AfterFunc(7*time.Second, func() {
			r.Sessions()[0].Close(moqt.SessionUnauthorized, "go away") // the publisher ends at once
			<-gone
			publish(t, r, pub.PublisherConfig{Wait: true})
		})
		got, result := play(t, r, PlayerConfig{Wait: 5 * time.Second})
		require.Greater(t, result.Tracks[0].Objects, uint64(250+150))
		require.True(t, bytes.HasSuffix(got, whole[len(whole)-1000:]))
	})
}

// The MSF catalog carries an init segment for each track, which are joined.
func TestPlayFromMSF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, in, _ := clip(t)
		r := &clienttest.Relay{}
		publish(t, r, pub.PublisherConfig{Wait: true})
		got, result := play(t, r, PlayerConfig{
			Catalogs: []string{"no such track", "catalog"}, Duration: 3 * time.Second,
		})
		require.Len(t, result.Tracks, 2)
		require.True(t, bytes.HasPrefix(got, in.Data[:32]))
		require.InDelta(t, 3, result.Media.Seconds(), 0.1)
	})
}

func TestPlayLosesWhatIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{Tamper: func(track moqt.FullTrackName, h moqt.SubgroupHeader, s io.Reader) io.Reader {
			if track.Name == "1.layers.m4s" && h.GroupID == 2 && h.SubgroupID == 1 {
				return io.MultiReader(io.LimitReader(s, 20000), iotest.ErrReader(errors.New("reset")))
			}
			return s
		}}
		publish(t, r, pub.PublisherConfig{Wait: true})
		_, result := play(t, r, PlayerConfig{})
		v := result.Tracks[0]
		require.Equal(t, uint64(1), v.Resets)
		require.Equal(t, uint64(1), v.Gaps)
		require.Greater(t, v.Objects, uint64(200))
		require.Less(t, v.Objects, uint64(250))
		require.Equal(t, uint64(470), result.Tracks[1].Objects, "the other track is complete")
	})
}

func TestPlayErrors(t *testing.T) {
	refused := &moqt.RequestError{Code: moqt.RequestUnauthorized, Reason: "no token"}
	for name, tt := range map[string]struct {
		relay   *clienttest.Relay
		cfg     PlayerConfig
		publish bool
		want    string
	}{
		"nobody publishes": {relay: &clienttest.Relay{}, want: "DOES_NOT_EXIST"},
		"waited in vain":   {relay: &clienttest.Relay{}, cfg: PlayerConfig{Wait: time.Second}, want: "DOES_NOT_EXIST"},
		"refused": {
			relay: &clienttest.Relay{Refuse: map[moqt.MessageType]*moqt.RequestError{moqt.MessageSubscribe: refused}},
			want:  "no token",
		},
		"unknown track": {relay: &clienttest.Relay{}, publish: true, cfg: PlayerConfig{
			Tracks: []string{"4.m4s"},
		}, want: `no track "4.m4s" to play; the catalog has 1.m4s (video, cmaf), 2.m4s (audio, cmaf)`},
		"not a catalog": {
			relay: &clienttest.Relay{}, publish: true, cfg: PlayerConfig{Catalogs: []string{"0.mp4"}},
			want: "catalog: invalid character",
		},
		"unreachable": {relay: &clienttest.Relay{Unreachable: true}, want: "connection refused"},
		"bad file to check": {
			relay: &clienttest.Relay{}, cfg: PlayerConfig{Verify: bytes.NewReader(nil)}, want: "file to verify against",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.publish {
					publish(t, tt.relay, pub.PublisherConfig{})
				}
				tt.cfg.Namespace, tt.cfg.Out, tt.cfg.Client = namespace, io.Discard, clientConfig(tt.relay)
				_, err := Run(t.Context(), tt.cfg, nil)
				require.ErrorContains(t, err, tt.want)
			})
		})
	}
	_, err := Run(t.Context(), PlayerConfig{}, nil)
	require.ErrorContains(t, err, "no output")
	_, err = Run(t.Context(), PlayerConfig{Out: io.Discard}, nil)
	require.ErrorContains(t, err, "no namespace")
}

// Without FETCH, playback starts with the next group.
func TestPlayWithoutFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{Refuse: map[moqt.MessageType]*moqt.RequestError{
			moqt.MessageFetch: {Code: moqt.RequestNotSupported},
		}}
		publish(t, r, pub.PublisherConfig{})
		time.Sleep(time.Second)
		_, result := play(t, r, PlayerConfig{})
		require.Equal(t, uint64(200), result.Tracks[0].Objects)
	})
}

func TestPlayIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{}
		publish(t, r, pub.PublisherConfig{Loop: true})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		result, err := Run(ctx, PlayerConfig{
			Namespace: namespace, Out: io.Discard, Client: clientConfig(r),
		}, func(Progress) {})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotZero(t, result.Objects())
	})
}

// Nothing is reported when Run has returned.
func TestProgressEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{}
		publish(t, r, pub.PublisherConfig{Loop: true})
		ctx, cancel := context.WithCancel(t.Context())
		reported := false
		_, err := Run(ctx, PlayerConfig{
			Namespace: namespace, Out: io.Discard, Client: clientConfig(r),
		}, func(Progress) {
			cancel()
			time.Sleep(time.Second)
			reported = true
		})
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, reported)
	})
}

func TestListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &clienttest.Relay{}
		publish(t, r, pub.PublisherConfig{Wait: true})
		got, _ := play(t, r, PlayerConfig{Raw: true, Tracks: []string{"0.mp4", "1.m4s"}, Objects: 3})
		lines := strings.Split(strings.TrimSpace(string(got)), "\n")
		require.Len(t, lines, 3)
		require.Regexp(t, `(?m)^0\.mp4 group=\d object=0 subgroup=0 priority=16 bytes=1236 sha256=[0-9a-f]{64}$`,
			string(got))
		require.Regexp(t, `(?m)^1\.m4s group=0 object=0 subgroup=0 priority=128 bytes=\d+ sha256=[0-9a-f]{64}$`,
			string(got))
	})
	require.True(t, printable([]byte("12:30:05")))
	require.False(t, printable([]byte("\x00")))
	require.False(t, printable([]byte{0xff}))
	require.False(t, printable(bytes.Repeat([]byte("a"), 65)))
}

// A list has each object once, also when the relay goes away at the end of a group.
func TestListingMoves(t *testing.T) {
	for _, at := range []time.Duration{4500 * time.Millisecond, 4990 * time.Millisecond, 5010 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := &clienttest.Relay{}
			publish(t, r, pub.PublisherConfig{Wait: true})
			time.AfterFunc(at, func() {
				for _, s := range r.Sessions() {
					require.NoError(t, s.Goaway("", 5*time.Second))
				}
			})
			got, _ := play(t, r, PlayerConfig{Raw: true, Tracks: []string{"1.m4s", "2.m4s"}})
			lines := strings.Split(strings.TrimSpace(string(got)), "\n")
			require.Equal(t, 720, len(lines))
			slices.Sort(lines)
			require.Equal(t, 720, len(slices.Compact(lines)))
		})
	}
}

// What a session has not brought, for longer than a group lasts, is listed after the move to another one.
func TestListingCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen sync.Map
		r := &clienttest.Relay{Tamper: func(t moqt.FullTrackName, h moqt.SubgroupHeader, stream io.Reader) io.Reader {
			_, again := seen.LoadOrStore(t.Name+strconv.FormatUint(h.GroupID, 10), true)
			if h.GroupID >= 2 && !again {
				return iotest.ErrReader(io.ErrUnexpectedEOF)
			}
			return stream
		}}
		publish(t, r, pub.PublisherConfig{Wait: true, History: pub.History{Groups: 5}})
		time.AfterFunc(8500*time.Millisecond, func() {
			for _, s := range r.Sessions() {
				require.NoError(t, s.Goaway("", 5*time.Second))
			}
		})
		got, _ := play(t, r, PlayerConfig{Raw: true, Tracks: []string{"1.m4s", "2.m4s"}})
		lines := strings.Split(strings.TrimSpace(string(got)), "\n")
		slices.Sort(lines)
		require.Equal(t, 720, len(slices.Compact(lines)))
	})
}

// What two sessions bring is listed once, what one brings twice is listed twice.
func TestListed(t *testing.T) {
	l := &listed{by: make(map[moqt.Location]*client.Link)}
	one, two := new(client.Link), new(client.Link)
	at := moqt.Location{Group: 7, Object: 3}
	require.True(t, l.isNew(at, one))
	require.False(t, l.isNew(at, two))
	require.True(t, l.isNew(at, one))
	for i := range uint64(maxListed + 10) { // of a publisher that was restarted
		before := at
		at = moqt.Location{Group: 1<<40 + i/100, Object: i % 100}
		require.True(t, l.isNew(at, one))
		require.False(t, l.isNew(before, two), "only what is old is forgotten")
	}
	require.True(t, l.isNew(moqt.Location{Group: 7, Object: 3}, two))
	require.LessOrEqual(t, len(l.by), maxListed)
}

// Objects in datagrams are objects like others.
func TestPlayDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, in, chunks := clip(t)
		var out bytes.Buffer
		cfg := PlayerConfig{Namespace: namespace, Out: &out}.withDefaults()
		p := &playback{cfg: &cfg, ctx: t.Context(), player: newPlayer(&out, in, hold, limits{})}
		r := &laneReceiver{e: &playing{p: p}, lane: p.player.addLane("2.m4s", in.Track(2), nil), first: newArrival()}
		var want []byte
		object := uint64(0)
		for _, c := range chunks[:40] {
			if c.Track == 2 {
				group := object / 10
				r.HandleDatagram(&moqt.ObjectDatagram{
					Location: at(group, object%10), Payload: c.Data, EndOfGroup: object%10 == 9,
				})
				want = append(want, c.Data...)
				object++
			}
		}
		last := at((object-1)/10, (object-1)%10+1)
		r.HandleDatagram(&moqt.ObjectDatagram{Location: last, Status: moqt.StatusEndOfTrack})
		require.NoError(t, p.player.run(t.Context()))
		require.True(t, bytes.Equal(want, out.Bytes()))
		require.Zero(t, r.lane.seq.counted.Gaps)
	})
}

// TestEndsWhileTheRelayThinks ends playback while the relay has not answered, as it waits for a publisher.
func TestEndsWhileTheRelayThinks(t *testing.T) {
	for name, cfg := range map[string]PlayerConfig{
		"play": {},
		"list": {Raw: true, Tracks: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cfg.Namespace, cfg.Client, cfg.Out = namespace, clientConfig(&clienttest.Relay{}), io.Discard
				cfg.Wait = time.Hour
				ended := make(chan error, 1)
				go func() {
					_, err := Run(ctx, cfg, nil)
					ended <- err
				}()
				synctest.Wait()
				require.Empty(t, ended)
				cancel()
				synctest.Wait() // no time passes
				require.Len(t, ended, 1)
				require.ErrorIs(t, <-ended, context.Canceled)
			})
		})
	}
}
