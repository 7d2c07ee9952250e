package session

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport"
	"sluice/transport/transporttest"
)

// acceptUni returns the next data stream of the session, and its header.
func (p *script) acceptUni() (transport.ReceiveStream, moqt.SubgroupHeader) {
	p.Helper()
	stream, err := p.conn.AcceptUniStream(p.Context())
	require.NoError(p, err)
	var b []byte
	for {
		h, _, err := moqt.ParseSubgroupHeader(moqt.Draft18, b)
		if err == nil {
			return stream, h
		}
		require.ErrorIs(p, err, moqt.ErrIncomplete)
		b = append(b, 0)
		_, err = io.ReadFull(stream, b[len(b)-1:])
		require.NoError(p, err)
	}
}

func TestServeASubscription(t *testing.T) {
	h := newHandler()
	properties, err := moqt.NewProperties(moqt.KeyValuePair{Type: moqt.PropertyMaxCacheDuration, Value: 1000})
	require.NoError(t, err)
	play(t, setting{cfg: Config{Role: Server, Handler: h}}, func(p *script) {
		token := moqt.Token{AliasType: moqt.AliasUseValue, Type: 5, Value: []byte("t")}
		e := p.request(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{
			AuthorizationTokens: []moqt.Token{token}, Forward: new(false),
		}})
		pub := <-h.subscribes
		require.Equal(p, testTrack, pub.Track())
		require.Equal(p, []moqt.Token{token}, pub.Tokens())
		require.False(p, pub.Forward())
		require.ErrorIs(p, pub.Done(0, ""), ErrUnanswered)

		largest := moqt.Parameters{LargestObject: &moqt.Location{Group: 1}}
		require.NoError(p, pub.Accept(largest, properties))
		require.Equal(p, &moqt.SubscribeOK{TrackAlias: pub.Alias(), Parameters: largest, Properties: properties},
			e.receive())
		require.ErrorIs(p, pub.Accept(largest, nil), ErrAnswered)

		stream, err := pub.OpenSubgroup(p.Context(), moqt.SubgroupHeader{GroupID: 2})
		require.NoError(p, err)
		p.write(stream, []byte("object"))
		require.NoError(p, stream.Close())
		in, header := p.acceptUni()
		require.Equal(p, moqt.SubgroupHeader{GroupID: 2, TrackAlias: pub.Alias()}, header)
		body, err := io.ReadAll(in)
		require.NoError(p, err)
		require.Equal(p, "object", string(body))

		o := moqt.ObjectDatagram{Location: moqt.Location{Group: 3, Object: 1}, Payload: []byte("d")}
		require.NoError(p, pub.SendDatagram(o))
		b, err := p.conn.ReceiveDatagram(p.Context())
		require.NoError(p, err)
		o.TrackAlias = pub.Alias()
		require.Equal(p, datagram(p.T, o), b)
		o.Payload = make([]byte, 2000)
		require.ErrorIs(p, pub.SendDatagram(o), transport.ErrDatagramTooLarge)

		pub.AddStreams(2)
		require.NoError(p, pub.Done(moqt.DoneTrackEnded, "bye"))
		require.Equal(p, &moqt.PublishDone{Status: moqt.DoneTrackEnded, StreamCount: 3, Reason: "bye"}, e.receive())
		e.requireEOF()
		require.ErrorIs(p, context.Cause(pub.Context()), ErrFinished)
		require.Error(p, pub.Done(0, ""))
		_, err = pub.OpenSubgroup(p.Context(), moqt.SubgroupHeader{})
		require.ErrorIs(p, err, ErrFinished)
		require.ErrorIs(p, pub.SendDatagram(o), ErrFinished)
	})
}

func TestUpdatesOfAPublication(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{
			Forward: new(false), SubscriberPriority: new(uint8(1)),
		}})
		pub := <-h.subscribes
		e.update(moqt.Parameters{Forward: new(true)}) // sent before the response
		early := <-pub.Updates()
		require.ErrorIs(p, early.OK(moqt.Parameters{}), ErrUnanswered)
		require.NoError(p, pub.Accept(moqt.Parameters{}, nil))
		require.IsType(p, &moqt.SubscribeOK{}, e.receive())
		e.update(moqt.Parameters{SubscriberPriority: new(uint8(2))})
		late := <-pub.Updates()
		require.ErrorIs(p, late.OK(moqt.Parameters{}), ErrAnswered, "out of order")
		require.NoError(p, early.OK(moqt.Parameters{Expires: new(uint64(5))}))
		require.Equal(p, &moqt.RequestOK{Parameters: moqt.Parameters{Expires: new(uint64(5))}}, e.receive())
		require.True(p, pub.Forward())
		require.NoError(p, late.OK(moqt.Parameters{}))
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		parameters := pub.Parameters()
		require.EqualValues(p, 2, parameters.Priority())
		require.True(p, parameters.ForwardState())

		stream, err := pub.OpenSubgroup(p.Context(), moqt.SubgroupHeader{})
		require.NoError(p, err)
		e.update(moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterLargestObject}})
		require.NoError(p, (<-pub.Updates()).Reject(&moqt.RequestError{Code: moqt.RequestInvalidRange}))
		require.Equal(p, &moqt.RequestError{Code: moqt.RequestInvalidRange}, e.receive())
		require.NoError(p, pub.Done(moqt.DoneTrackEnded, ""))
		require.Equal(p, &moqt.PublishDone{Status: moqt.DoneUpdateFailed, StreamCount: 1}, e.receive())
		<-stream.Context().Done() // it was not closed, so it is reset
	})
}

// A peer that subscribes again when it has cancelled its subscription is served, although streams have no order. One
// that has not cancelled it is refused.
func TestSubscribeAgain(t *testing.T) {
	for name, cancel := range map[string]func(*exchange){
		"STOP_SENDING": func(e *exchange) { e.CancelRead(uint64(moqt.ResetCancelled)) },
		"RESET_STREAM": func(e *exchange) { e.CancelWrite(uint64(moqt.ResetCancelled)) },
		"":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, func(p *script, h *handler) {
				first := p.request(&moqt.Subscribe{Track: testTrack})
				require.NoError(p, (<-h.subscribes).Accept(moqt.Parameters{}, nil))
				second := p.request(&moqt.Subscribe{Track: testTrack})
				synctest.Wait()
				require.Empty(p, h.subscribes)
				if cancel == nil {
					second.requireRefused(moqt.RequestDuplicateSubscription)
					return
				}
				cancel(first)
				require.NoError(p, (<-h.subscribes).Accept(moqt.Parameters{}, nil))
				require.IsType(p, &moqt.SubscribeOK{}, second.receive())
			})
		})
	}
}

func TestUpdateThatTheSessionRefuses(t *testing.T) {
	h := newHandler()
	token := moqt.Token{AliasType: moqt.AliasUseValue, Value: []byte("x")}
	play(t, setting{cfg: Config{Role: Server, Handler: h}}, func(p *script) {
		e := p.request(&moqt.Subscribe{Track: testTrack})
		pub := <-h.subscribes
		require.NoError(p, pub.Accept(moqt.Parameters{}, nil))
		e.receive()
		e.update(moqt.Parameters{AuthorizationTokens: []moqt.Token{token, token}})
		refused := &moqt.RequestError{}
		require.ErrorAs(p, (<-pub.Updates()).OK(moqt.Parameters{}), &refused)
		require.Equal(p, moqt.RequestMalformedAuthToken, refused.Code)
		require.Equal(p, refused, e.receive())
	})
}

// TestMessagesComeBeforeData checks that data cannot use up the credit of the message that assigns its alias (draft
// §11.4.2).
func TestMessagesComeBeforeData(t *testing.T) {
	h := newHandler()
	set := setting{cfg: Config{Role: Server, Handler: h}, pipe: transporttest.PipeConfig{StreamWindow: 4}, silent: true}
	play(t, set, func(p *script) {
		p.sentSetup()
		p.setup(&moqt.Setup{})
		e := p.request(&moqt.Subscribe{Track: testTrack})
		pub := <-h.subscribes
		require.NoError(p, pub.Accept(moqt.Parameters{Expires: new(uint64(1))}, nil))
		ctx, cancel := context.WithTimeout(p.Context(), time.Second)
		defer cancel()
		_, err := pub.OpenSubgroup(ctx, moqt.SubgroupHeader{})
		require.ErrorIs(p, err, context.DeadlineExceeded)
		require.IsType(p, &moqt.SubscribeOK{}, e.receive())
		_, err = pub.OpenSubgroup(p.Context(), moqt.SubgroupHeader{})
		require.NoError(p, err)
	})
}

func TestPublish(t *testing.T) {
	play(t, setting{}, func(p *script) {
		pub, err := p.s.Publish(p.Context(), moqt.Publish{Track: testTrack, TrackAlias: 99})
		require.NoError(p, err)
		_, err = p.s.Publish(p.Context(), moqt.Publish{Track: testTrack})
		require.ErrorIs(p, err, ErrDuplicate)
		e := p.accept()
		m := e.receive().(*moqt.Publish)
		require.Equal(p, pub.Alias(), m.TrackAlias)
		require.NotEqual(p, uint64(99), m.TrackAlias)

		_, err = pub.OpenSubgroup(p.Context(), moqt.SubgroupHeader{}) // before the response
		require.NoError(p, err)
		p.request(&moqt.Subscribe{Track: testTrack}).requireRefused(moqt.RequestDuplicateSubscription) // draft §5.1

		e.send(&moqt.RequestOK{Parameters: moqt.Parameters{Forward: new(false), SubscriberPriority: new(uint8(3))}})
		require.NoError(p, pub.Wait(p.Context()))
		require.False(p, pub.Forward())
		parameters := pub.Parameters()
		require.EqualValues(p, 3, parameters.Priority())

		e.update(moqt.Parameters{Forward: new(true)})
		require.NoError(p, (<-pub.Updates()).OK(moqt.Parameters{}))
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		require.True(p, pub.Forward())

		e.CancelRead(uint64(moqt.ResetCancelled))
		synctest.Wait()
		require.Error(p, pub.Context().Err(), "nothing can follow")
	})
}

func TestPublishWithoutStreams(t *testing.T) {
	play(t, setting{pipe: transporttest.PipeConfig{MaxStreams: 1}}, func(p *script) {
		first, err := p.s.Publish(p.Context(), moqt.Publish{Track: testTrack})
		require.NoError(p, err)
		_, err = p.s.TryPublish(moqt.Publish{Track: otherTrack})
		require.ErrorIs(p, err, transport.ErrStreamLimit)
		ctx, cancel := context.WithTimeout(p.Context(), time.Second)
		defer cancel()
		_, err = p.s.Publish(ctx, moqt.Publish{Track: otherTrack})
		require.ErrorIs(p, err, context.DeadlineExceeded)

		e := p.accept()
		e.CancelWrite(0)
		e.requireReset(moqt.ResetCancelled)
		<-first.Context().Done()
		_, err = p.s.TryPublish(moqt.Publish{Track: otherTrack})
		require.NoError(p, err)
	})
}

func TestWaitingForAStreamEndsWithTheSession(t *testing.T) {
	play(t, setting{pipe: transporttest.PipeConfig{MaxStreams: -1, MaxUniStreams: 1}}, func(p *script) {
		go func() {
			time.Sleep(time.Second)
			p.s.Close(moqt.SessionNoError, "")
		}()
		_, err := p.s.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack}, nil)
		require.Error(p, err)
		_, err = p.s.Subscribe(p.Context(), moqt.Subscribe{Track: testTrack}, nil)
		require.Error(p, err)
	})
}
