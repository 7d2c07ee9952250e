package session

import (
	"context"
	"io"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func TestFetch(t *testing.T) {
	for _, order := range []string{"response first", "data first", "response after all data"} {
		play(t, setting{}, func(p *script) {
			f, err := p.s.Fetch(p.Context(), moqt.Fetch{
				FetchType: moqt.FetchStandalone, Track: testTrack, End: moqt.Location{Group: 3},
			})
			require.NoError(p, err)
			e := p.accept()
			require.Equal(p, testTrack, e.receive().(*moqt.Fetch).Track)
			ok := &moqt.FetchOK{End: moqt.Location{Group: 2, Object: 1}, EndOfTrack: true}
			data := func() { require.NoError(p, p.uni(append(fetchHeader(f.ID()), "objects"...)).Close()) }
			read := func() {
				stream, err := f.Stream(p.Context())
				require.NoError(p, err)
				b, err := io.ReadAll(stream)
				require.NoError(p, err)
				require.Equal(p, "objects", string(b))
			}
			switch order {
			case "response first":
				e.send(ok)
				data()
			case "data first":
				data()
				e.send(ok)
			default:
				data()
				read()
				e.send(ok)
				p.requireOpen()
			}
			got, err := f.Wait(p.Context())
			require.NoError(p, err)
			require.Equal(p, ok, got)
			if order != "response after all data" {
				read()
			}
			<-f.Context().Done()
			require.ErrorIs(p, context.Cause(f.Context()), ErrFinished)
			e.requireEOF()
			p.requireStopped(p.uni(fetchHeader(f.ID())), moqt.ResetCancelled) // too late, and harmless
			p.requireOpen()
		})
	}
}

func TestFetchOfAnUnsupportedTrack(t *testing.T) {
	mandatory, err := moqt.NewProperties(moqt.KeyValuePair{Type: 0x4000, Value: 1})
	require.NoError(t, err)
	play(t, setting{}, func(p *script) {
		f, err := p.s.Fetch(p.Context(), moqt.Fetch{FetchType: moqt.FetchStandalone, Track: testTrack})
		require.NoError(p, err)
		e := p.accept()
		e.send(&moqt.FetchOK{Properties: mandatory})
		_, err = f.Wait(p.Context())
		require.ErrorContains(p, err, "UNSUPPORTED_EXTENSION")
		e.requireReset(moqt.ResetCancelled)
		p.requireOpen()
	})
}

func TestServeAFetch(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.Fetch{
			FetchType: moqt.FetchStandalone, Track: testTrack,
			Start: moqt.Location{Group: 1}, End: moqt.Location{Group: 2, Object: 3},
		})
		f := <-h.fetches
		require.Equal(p, testTrack, f.Track)
		require.Equal(p, moqt.Range{Start: moqt.Location{Group: 1}, End: moqt.Location{Group: 2, Object: 2}}, f.Range)
		require.ErrorIs(p, f.Done(), ErrUnanswered)
		stream, err := f.OpenStream(p.Context())
		require.NoError(p, err)
		p.write(stream, []byte("objects"))
		require.NoError(p, stream.Close())
		require.NoError(p, f.OK(moqt.FetchOK{End: moqt.Location{Group: 2, Object: 3}}))
		require.NoError(p, f.Done())
		require.IsType(p, &moqt.FetchOK{}, e.receive())
		e.requireEOF()

		in, err := p.conn.AcceptUniStream(p.Context())
		require.NoError(p, err)
		b, err := io.ReadAll(in)
		require.NoError(p, err)
		require.Equal(p, append(fetchHeader(0), "objects"...), b)
	})
}

func TestRefusedUpdateOfAFetch(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.Fetch{FetchType: moqt.FetchStandalone})
		f := <-h.fetches
		stream, err := f.OpenStream(p.Context())
		require.NoError(p, err)
		require.NoError(p, f.OK(moqt.FetchOK{}))
		e.update(moqt.Parameters{SubscriberPriority: new(uint8(1))})
		require.NoError(p, (<-f.Updates()).Reject(&moqt.RequestError{Code: moqt.RequestUnauthorized}))
		require.IsType(p, &moqt.FetchOK{}, e.receive())
		require.IsType(p, &moqt.RequestError{}, e.receive())
		<-stream.Context().Done() // reset (draft §10.9.1)
	})
}

func TestJoiningFetch(t *testing.T) {
	joining := moqt.Location{Group: 7, Object: 4}
	for _, tc := range []struct {
		name  string
		typ   moqt.FetchType
		start uint64
		want  moqt.Location
	}{
		{"absolute", moqt.FetchAbsoluteJoining, 3, moqt.Location{Group: 3}},
		{"relative", moqt.FetchRelativeJoining, 3, moqt.Location{Group: 4}},
		{"relative to before the first group", moqt.FetchRelativeJoining, 30, moqt.Location{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			serve(t, func(p *script, h *handler) {
				p.nextID = 2
				// The fetch arrives before its subscription.
				p.request(&moqt.Fetch{FetchType: tc.typ, JoiningRequestID: 0, JoiningStart: tc.start})
				time.Sleep(time.Second)
				p.nextID = 0
				p.request(&moqt.Subscribe{Track: testTrack})
				pub := <-h.subscribes
				time.Sleep(time.Minute) // a subscription may be pending for long
				require.Empty(p, h.fetches)
				require.NoError(p, pub.Accept(moqt.Parameters{LargestObject: &joining}, nil))
				f := <-h.fetches
				require.Same(p, pub, f.Joining)
				require.Equal(p, testTrack, f.Track)
				require.Equal(p, moqt.Range{Start: tc.want, End: joining}, f.Range)
			})
		})
	}
}

func TestJoiningFetchRefused(t *testing.T) {
	largest := moqt.Parameters{LargestObject: &moqt.Location{Group: 3}}
	for _, tc := range []struct {
		name    string
		forward bool
		ok      moqt.Parameters
		start   uint64
	}{
		{"nothing is forwarded", false, largest, 0},
		{"no objects", true, moqt.Parameters{}, 0},
		{"starts after the largest object", true, largest, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			serve(t, func(p *script, h *handler) {
				p.request(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{Forward: &tc.forward}})
				require.NoError(p, (<-h.subscribes).Accept(tc.ok, nil))
				p.request(&moqt.Fetch{FetchType: moqt.FetchAbsoluteJoining, JoiningStart: tc.start}).
					requireRefused(moqt.RequestInvalidRange)
			})
		})
	}
}

// TestJoiningAfterAnUpdate checks that the update that starts forwarding sets the Joining Location (draft §5.1).
func TestJoiningAfterAnUpdate(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{Forward: new(false)}})
		pub := <-h.subscribes
		require.NoError(p, pub.Accept(moqt.Parameters{LargestObject: &moqt.Location{Group: 3}}, nil))
		e.update(moqt.Parameters{Forward: new(true)})
		u := <-pub.Updates()
		p.request(&moqt.Fetch{FetchType: moqt.FetchRelativeJoining})
		p.requireOpen()
		require.Empty(p, h.fetches, "the update comes first (draft §10.12.2)")
		require.NoError(p, u.OK(moqt.Parameters{LargestObject: &moqt.Location{Group: 8, Object: 1}}))
		f := <-h.fetches
		want := moqt.Range{Start: moqt.Location{Group: 8}, End: moqt.Location{Group: 8, Object: 1}}
		require.Equal(p, want, f.Range)

		e.update(moqt.Parameters{Forward: new(true)}) // no change, so the Joining Location stays
		require.NoError(p, (<-pub.Updates()).OK(moqt.Parameters{LargestObject: &moqt.Location{Group: 9}}))
		p.request(&moqt.Fetch{FetchType: moqt.FetchRelativeJoining})
		require.Equal(p, want, (<-h.fetches).Range)
	})
}

// TestJoiningRightBehind has a SUBSCRIBE come while somebody looks for it, as a joining FETCH right behind it does. At
// each time it has either come, or may still come.
func TestJoiningRightBehind(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		for id := uint64(0); id < 200; id += 2 {
			track := moqt.FullTrackName{Namespace: testTrack.Namespace, Name: strconv.Itoa(int(id))}
			p.s.mu.Lock()
			p.request(&moqt.Subscribe{Track: track})
			mayArrive := true
			for range 1000 { // so that it gets to where it has to wait for mu
				mayArrive = mayArrive && p.s.responder.mayArrive(id)
				runtime.Gosched()
			}
			p.s.mu.Unlock()
			require.True(p, mayArrive, "request %d", id)
			<-h.subscribes
			require.False(p, p.s.responder.mayArrive(id))
		}
	})
}

func TestJoiningAPublish(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		pub, err := p.s.Publish(p.Context(), moqt.Publish{
			Track: testTrack, Parameters: moqt.Parameters{LargestObject: &moqt.Location{Group: 2}},
		})
		require.NoError(p, err)
		join := &moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningRequestID: pub.ID()}
		p.request(join)
		time.Sleep(time.Second)
		p.accept().send(&moqt.RequestOK{})
		require.Same(p, pub, (<-h.fetches).Joining)
	})
	serve(t, func(p *script, _ *handler) {
		pub, err := p.s.Publish(p.Context(), moqt.Publish{Track: testTrack})
		require.NoError(p, err)
		p.request(&moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningRequestID: pub.ID()}).
			requireRefused(moqt.RequestInvalidJoiningRequestID) // not Established
	})
}

func TestTrackStatus(t *testing.T) {
	play(t, setting{}, func(p *script) {
		go func() {
			e := p.accept()
			require.Equal(p, &moqt.TrackStatus{Track: testTrack}, e.receive())
			e.requireEOF()
			e.send(&moqt.RequestOK{Parameters: moqt.Parameters{LargestObject: &moqt.Location{Group: 5}}})
			require.NoError(p, e.Close())
			p.accept().send(&moqt.RequestError{Code: moqt.RequestDoesNotExist})
		}()
		ok, err := p.s.TrackStatus(p.Context(), moqt.TrackStatus{Track: testTrack})
		require.NoError(p, err)
		require.EqualValues(p, 5, ok.Parameters.LargestObject.Group)
		_, err = p.s.TrackStatus(p.Context(), moqt.TrackStatus{Track: testTrack})
		require.ErrorContains(p, err, "DOES_NOT_EXIST")
		ctx, cancel := context.WithTimeout(p.Context(), time.Second)
		defer cancel()
		_, err = p.s.TrackStatus(ctx, moqt.TrackStatus{Track: testTrack})
		require.ErrorIs(p, err, context.DeadlineExceeded)
		p.accept().requireReset(moqt.ResetCancelled)
	})
}

func TestServeATrackStatus(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.TrackStatus{Track: testTrack})
		require.NoError(p, e.Close())
		s := <-h.statuses
		require.NoError(p, s.OK(moqt.Parameters{LargestObject: &moqt.Location{}}, nil))
		require.Equal(p, &moqt.RequestOK{Parameters: moqt.Parameters{LargestObject: &moqt.Location{}}}, e.receive())
		e.requireEOF()
		require.Error(p, s.OK(moqt.Parameters{}, nil))
	})
}
