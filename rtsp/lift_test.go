package rtsp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/client"
	"sluice/player/cmaf"
	"sluice/player/sub"
	"sluice/server"
	"sluice/transport"
)

// camera publishes a clip by RTSP, and a media that MoQ broadcasts do not have. Its second group begins with a frame.
type camera struct {
	*clip
	t      *testing.T
	relay  *server.Server
	server *Server
	client gortsplib.Client
	desc   *description.Session
	sent   int // packets
}

const second = 10 // the frame

func newCamera(t *testing.T, options ...func(*Config)) *camera {
	t.Helper()
	c := &camera{clip: readClip(t, "avc.mp4"), t: t}
	c.relay, c.server = newMoQ(t, nil, options...)
	c.server.lifts = liftTimes{linger: time.Millisecond, wait: patient}
	c.desc = &description.Session{Medias: []*description.Media{
		{Type: description.MediaTypeVideo, Formats: []format.Format{c.format}},
		{Type: description.MediaTypeAudio, Formats: []format.Format{sounds["avc.mp4"]}},
		{Type: description.MediaTypeAudio, Formats: []format.Format{
			&format.G711{PayloadTyp: 8, SampleRate: 8000, ChannelCount: 1},
		}},
	}}
	c.client = gortsplib.Client{Protocol: protocol(gortsplib.ProtocolTCP)}
	t.Cleanup(c.client.Close)
	require.NoError(t, c.client.StartRecording(c.server.url(t, "/live/cam").String(), c.desc))
	return c
}

// sends sends a part of the clip, until the server has it.
func (c *camera) sends(first, end int) {
	c.t.Helper()
	c.sent += c.sendPart(c.t, &c.client, c.desc, first, end)
	eventually(c.t, "all has come", func() bool {
		return counted(c.t, c.server, "received_packets_total") == float64(c.sent)
	})
}

// works waits until packets become a MoQ broadcast, or do not.
func (c *camera) works(working float64) {
	c.t.Helper()
	eventually(c.t, "works", func() bool { return counted(c.t, c.server, "uplinks") == working })
}

// watcher plays the MoQ broadcast.
type watcher struct {
	t       *testing.T
	objects atomic.Uint64
	out     bytes.Buffer
	leave   context.CancelFunc
	left    chan error
}

func (c *camera) view() *watcher {
	v := &watcher{t: c.t, left: make(chan error, 1)}
	var ctx context.Context
	ctx, v.leave = context.WithCancel(c.t.Context())
	cfg := sub.PlayerConfig{
		Namespace: moqt.Namespace{"live", "cam"}, Out: &v.out, Wait: patient, Hold: patient,
		Client: client.SessionConfig{
			URL: "moqt://" + c.relay.Addr().String(), Logger: slog.New(slog.DiscardHandler),
			Transport: transport.ClientConfig{Insecure: true},
		},
	}
	go func() {
		_, err := sub.Run(ctx, cfg, func(p sub.Progress) { v.objects.Store(p.Objects) })
		v.left <- err
	}()
	return v
}

// has waits for so many frames of picture and sound. The latest ones wait for their place in the order of both.
func (v *watcher) has(frames uint64) {
	v.t.Helper()
	eventually(v.t, "frames", func() bool { return v.objects.Load() >= frames })
}

// expects waits for the end, and compares the pictures.
func (v *watcher) expects(frames [][]byte) {
	v.t.Helper()
	require.NoError(v.t, <-v.left)
	_, got := readVideo(v.t, &v.out)
	require.Equal(v.t, len(frames), len(got)) // not Len, which prints them
	for i, s := range got {
		require.True(v.t, bytes.Equal(frames[i], s.Data), "frame %d", i)
	}
}

// TestOnDemand checks that packets become a MoQ broadcast only while somebody wants it, and that who wants it gets the
// group that has begun meanwhile from its start.
func TestOnDemand(t *testing.T) {
	t.Parallel()
	c := newCamera(t)
	c.sends(0, second-2)
	c.works(0)
	c.sends(second-2, second+2)
	first := c.view()
	first.has(2)
	c.works(1)
	c.sends(second+2, second+3)
	first.has(3)
	first.leave()
	<-first.left
	c.works(0)

	// The same group goes on.
	c.sends(second+3, second+4)
	next := c.view()
	next.has(4)
	c.sends(second+4, second+5)
	next.has(5)
	c.client.Close()
	next.expects(c.frames[second : second+5])
}

// TestResumption checks that only decodable frames follow a gap: sound goes on after the picture, unless that has no
// key frame.
func TestResumption(t *testing.T) {
	t.Parallel()
	clip := readClip(t, "avc.mp4")
	desc := &description.Session{Medias: []*description.Media{
		{Type: description.MediaTypeVideo, Formats: []format.Format{clip.format}},
		{Type: description.MediaTypeAudio, Formats: []format.Format{sounds["av1.mp4"]}},
	}}
	picture := func(i int) (list []arrival) {
		packets, err := clip.packets(clip.frames[i])
		require.NoError(t, err)
		for _, p := range packets {
			list = append(list, arrival{media: desc.Medias[0], rtp: p, at: clip.times[i]})
		}
		return list
	}
	sound := func(i int) []arrival {
		return []arrival{{media: desc.Medias[1], rtp: &rtp.Packet{Payload: []byte{byte(i)}}, at: int64(i) * 960}}
	}
	late, kept := &resumption{gap: true, done: make(chan struct{})}, &resumption{done: make(chan struct{})}
	kept.packets = picture(second + 2)
	testUplink(t, desc, [][]arrival{
		picture(0), sound(1),
		{{resume: late}}, sound(2), picture(1), picture(second), picture(second + 1), sound(3),
		{{resume: kept}}, sound(4),
	},
		clip.frames[0], []byte{1},
		clip.frames[second], clip.frames[second+1], []byte{3},
		clip.frames[second+2], []byte{4},
	)
	<-late.done
	<-kept.done

	// Another one comes before a key frame has.
	before, after := &resumption{gap: true, done: make(chan struct{})}, &resumption{done: make(chan struct{})}
	testUplink(t, desc, [][]arrival{
		picture(0), sound(1), {{resume: before}}, sound(2), {{resume: after}}, picture(second), sound(3),
	}, clip.frames[0], []byte{1}, clip.frames[second], []byte{3})
	for _, r := range []*resumption{before, after} {
		select {
		case <-r.done:
		case <-time.After(patient):
			t.Fatal("a resumption does not end")
		}
	}

	// Without a key frame, sound goes on when it has waited for long. It waits again after the next gap.
	long := int(patience / (20 * time.Millisecond))
	late = &resumption{gap: true, done: make(chan struct{})}
	next := &resumption{gap: true, done: make(chan struct{})}
	testUplink(t, desc, [][]arrival{
		picture(0), sound(1),
		{{resume: late}}, sound(2), picture(1), sound(long), sound(long + 3), sound(long + 4), picture(2),
		{{resume: next}}, sound(long + 5), sound(long + 6),
	}, clip.frames[0], []byte{1}, []byte{byte(long + 4)})
	<-late.done
	<-next.done
}

// testUplink checks which frames an uplink makes of packets and resumptions.
func testUplink(t *testing.T, desc *description.Session, arrivals [][]arrival, want ...[]byte) {
	t.Helper()
	in, out := io.Pipe()
	u := newUplink(desc, out, nil)
	for _, list := range arrivals {
		for _, a := range list {
			if a.rtp != nil {
				require.True(t, u.offer(a))
			} else {
				u.queue <- a
			}
		}
	}
	close(u.queue)
	go func() { _ = u.run() }() // it ends with the queue
	r := cmaf.NewReader(in)
	init, err := r.Init()
	require.NoError(t, err)
	for _, want := range want {
		c, err := r.Next()
		require.NoError(t, err)
		samples, err := init.Samples(c.Data)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, samples[0].Data))
	}
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
}

// TestResumptionWaits checks that a resumption ends when all tracks have gone on, and their packets are read.
func TestResumptionWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		desc := broadcast()
		desc.Medias = desc.Medias[1:] // Opus
		in, out := io.Pipe()
		u := newUplink(desc, out, nil)
		l := newLift(newStream(desc, cacheOf(0), nil), u, defaultLiftTimes)
		send := func(i int) {
			p := &rtp.Packet{Payload: []byte{byte(i)}, Header: rtp.Header{Timestamp: uint32(i) * 960}}
			l.mu.Lock()
			defer l.mu.Unlock()
			require.True(t, l.offerLocked(desc.Medias[0], p, int64(i)*960))
		}
		var ended sync.WaitGroup
		ended.Go(func() { _ = u.run() }) // it ends with the queue
		r := cmaf.NewReader(in)
		send(1)
		_, err := r.Init()
		require.NoError(t, err)
		read := func() {
			_, err := r.Next()
			require.NoError(t, err)
		}
		read()
		time.Sleep(2 * defaultLiftTimes.linger)
		require.False(t, l.works())
		send(2) // it is not kept
		wanted, wants := make(chan struct{}), context.Background()
		wants, leave := context.WithCancel(wants)
		go func() {
			l.want(wants)
			close(wanted)
		}()
		synctest.Wait()
		require.True(t, l.works())
		select {
		case <-wanted:
			t.Fatal("nothing has come")
		default:
		}
		send(3)
		read()
		synctest.Wait()
		select {
		case <-wanted:
			t.Fatal("the chunk was read, and not yet published")
		default:
		}
		go func() {
			_, err := r.Next()
			require.ErrorIs(t, err, io.EOF)
		}()
		<-wanted
		time.Sleep(2 * defaultLiftTimes.linger)
		require.True(t, l.works())
		leave()
		time.Sleep(2 * defaultLiftTimes.linger)
		require.False(t, l.works())

		began := time.Now()
		l.want(t.Context()) // nothing comes
		require.Equal(t, defaultLiftTimes.wait, time.Since(began))
		l.close()
		ended.Wait()
	})
}

// TestResumptions checks that few resumptions wait, and that the next request tries again.
func TestResumptions(t *testing.T) {
	t.Parallel()
	desc := broadcast()
	_, out := io.Pipe() // nobody reads
	u := newUplink(desc, out, nil)
	l := newLift(newStream(desc, cacheOf(0), nil), u, liftTimes{linger: time.Hour})
	defer l.close()
	u.begun.Store(true)
	p := &rtp.Packet{Payload: framePayload(1)}
	for range uplinkQueue {
		require.True(t, u.offer(arrival{media: desc.Medias[0], rtp: p}))
	}
	for i := range maxResumptions + 2 {
		l.sleep()
		l.want(t.Context())
		require.Equal(t, i < maxResumptions, l.works())
		l.unwant()
	}
	<-u.queue
	l.want(t.Context())
	require.True(t, l.works())
	require.False(t, u.offer(arrival{media: desc.Medias[0], rtp: p}), "packets have no place of resumptions")
}
