package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport"
	"sluice/transport/transporttest"
)

func TestPublishNamespace(t *testing.T) {
	play(t, setting{}, func(p *script) {
		n, err := p.s.PublishNamespace(p.Context(), moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}})
		require.NoError(p, err)
		e := p.accept()
		require.Equal(p, &moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}}, e.receive())
		e.send(&moqt.RequestOK{})
		require.NoError(p, n.Wait(p.Context()))
		go func() {
			e.receive()
			e.send(&moqt.RequestOK{})
		}()
		require.NoError(p, n.Update(p.Context(), moqt.Parameters{}))
		n.Cancel(moqt.ResetCancelled)
		e.requireReset(moqt.ResetCancelled)

		n, err = p.s.PublishNamespace(p.Context(), moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}})
		require.NoError(p, err)
		e = p.accept()
		e.send(&moqt.RequestOK{})
		require.NoError(p, n.Wait(p.Context()))
		e.CancelRead(uint64(moqt.ResetExpiredAuthToken)) // revoked
		<-n.Context().Done()
		require.Equal(p, &transport.StreamError{Code: 7, Remote: true}, context.Cause(n.Context()))
	})
}

func TestServeAPublishNamespace(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.PublishNamespace{Namespace: moqt.Namespace{"a"}})
		n := <-h.namespaces
		require.Equal(p, moqt.Namespace{"a"}, n.Message.Namespace)
		require.NoError(p, n.OK())
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		e.update(moqt.Parameters{})
		require.NoError(p, (<-n.Updates()).Reject(&moqt.RequestError{Code: moqt.RequestUnauthorized}))
		require.IsType(p, &moqt.RequestError{}, e.receive())
		e.requireEOF() // draft §10.9.1
		<-n.Context().Done()
	})
}

// changes collects the changes of a namespace subscription as "+a/b" and "-a/b".
type changes chan string

func (c changes) notify(ns moqt.Namespace, published bool, _ moqt.Parameters) {
	sign := map[bool]string{true: "+", false: "-"}[published]
	c <- sign + strings.Join(ns, "/")
}

func TestSubscribeNamespace(t *testing.T) {
	play(t, setting{cfg: Config{Limits: Limits{MaxNamespaces: 3}}}, func(p *script) {
		c := make(changes, 100)
		n, err := p.s.SubscribeNamespace(p.Context(), moqt.SubscribeNamespace{Prefix: moqt.Namespace{"a"}}, c.notify)
		require.NoError(p, err)
		e := p.accept()
		require.Equal(p, &moqt.SubscribeNamespace{Prefix: moqt.Namespace{"a"}}, e.receive())
		added := func(fields ...string) moqt.Message { return &moqt.NamespaceAdded{Suffix: fields} }
		done := func(fields ...string) moqt.Message { return &moqt.NamespaceDone{Suffix: fields} }
		e.send(&moqt.RequestOK{}, added("b"), added(), added("b"), done("b"), added("b", "c"), added("d"))
		require.NoError(p, n.Wait(p.Context()))
		for _, want := range []string{"+a/b", "+a", "-a/b", "+a/b/c", "+a/d"} {
			require.Equal(p, want, <-c)
		}

		// Suffixes that follow the response are relative to the new prefix.
		go func() {
			e.receive()
			e.send(&moqt.RequestOK{}, done("c"), added("e"))
		}()
		require.NoError(p, n.Update(p.Context(), moqt.Parameters{NamespacePrefix: &moqt.Namespace{"a", "b"}}))
		got := map[string]bool{}
		for range 4 {
			got[<-c] = true
		}
		require.Equal(p, map[string]bool{"-a": true, "-a/d": true, "-a/b/c": true, "+a/b/e": true}, got)

		require.NoError(p, e.Close()) // the same as NAMESPACE_DONE for each (draft §10.18)
		require.Equal(p, "-a/b/e", <-c)
		<-n.Context().Done()
		e.requireEOF()
	})
}

func TestTooManyNamespaces(t *testing.T) {
	play(t, setting{cfg: Config{Limits: Limits{MaxNamespaces: 3}}}, func(p *script) {
		c := make(changes, 100)
		n, err := p.s.SubscribeNamespace(p.Context(), moqt.SubscribeNamespace{}, c.notify)
		require.NoError(p, err)
		e := p.accept()
		e.send(&moqt.RequestOK{})
		for i := range 4 {
			e.send(&moqt.NamespaceAdded{Suffix: moqt.Namespace{fmt.Sprint(i)}})
		}
		e.requireReset(moqt.ResetExcessiveLoad)
		require.ErrorIs(p, context.Cause(n.Context()), errTooManyNamespaces)
		p.requireOpen()
		require.Len(p, c, 6) // appeared and disappeared
	})
}

func TestReservedNamespacesAreNotReported(t *testing.T) {
	play(t, setting{}, func(p *script) {
		c := make(changes, 100)
		_, err := p.s.SubscribeNamespace(p.Context(), moqt.SubscribeNamespace{}, c.notify)
		require.NoError(p, err)
		e := p.accept()
		e.send(&moqt.RequestOK{}, &moqt.NamespaceAdded{Suffix: moqt.Namespace{".session", "x"}},
			&moqt.NamespaceAdded{Suffix: moqt.Namespace{"."}}, &moqt.NamespaceAdded{Suffix: moqt.Namespace{"x"}})
		require.Equal(p, "+x", <-c)
	})
}

// closing is an outbox whose request is closed by its server just before the stream is reset.
type closing struct {
	messageSender
	r        *Request
	finished bool
}

func (c *closing) reset(code moqt.StreamResetCode) {
	c.r.close()
	c.messageSender.reset(code)
}

func (c *closing) finish() { c.finished = true }

// TestResetIsNoFIN checks that a request that this end cancels ends with the reset, although its server, whom that
// tells, closes the request at the same time.
func TestResetIsNoFIN(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.SubscribeNamespace{Prefix: moqt.Namespace{"a"}})
		n := <-h.discovers
		out := &closing{messageSender: n.out, r: n.Request}
		n.out = out
		n.Cancel(moqt.ResetExpiredAuthToken)
		e.requireReset(moqt.ResetExpiredAuthToken)
		require.False(p, out.finished)
		n.close()
		require.False(p, out.finished)
	})
}

func TestServeASubscribeNamespace(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.SubscribeNamespace{Prefix: moqt.Namespace{"a"}})
		n := <-h.discovers
		ab, ac := moqt.Namespace{"a", "b"}, moqt.Namespace{"a", "c"}
		require.ErrorIs(p, n.Add(ab, moqt.Parameters{}), ErrUnanswered)
		require.NoError(p, n.OK())
		require.NoError(p, n.Remove(ab), "the namespace was not reported")
		require.NoError(p, n.Add(ab, moqt.Parameters{}))
		require.NoError(p, n.Add(ab, moqt.Parameters{}))
		require.NoError(p, n.Add(ac, moqt.Parameters{}))
		require.NoError(p, n.Remove(ac))
		require.Error(p, n.Add(moqt.Namespace{"b"}, moqt.Parameters{}))
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		require.Equal(p, &moqt.NamespaceAdded{Suffix: moqt.Namespace{"b"}}, e.receive())
		require.Equal(p, &moqt.NamespaceAdded{Suffix: moqt.Namespace{"c"}}, e.receive())
		require.Equal(p, &moqt.NamespaceDone{Suffix: moqt.Namespace{"c"}}, e.receive())

		e.update(moqt.Parameters{NamespacePrefix: &moqt.Namespace{}})
		require.NoError(p, (<-n.Updates()).OK(moqt.Parameters{}))
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		require.NoError(p, n.Remove(ab))
		require.Equal(p, &moqt.NamespaceDone{Suffix: ab}, e.receive())
		require.ErrorIs(p, n.Add(moqt.Namespace{".session", "x"}, moqt.Parameters{}), ErrReserved)

		p.request(&moqt.SubscribeNamespace{Prefix: moqt.Namespace{"z"}}).requireRefused(moqt.RequestPrefixOverlap)
		e.update(moqt.Parameters{NamespacePrefix: &moqt.Namespace{"a"}})
		require.NoError(p, (<-n.Updates()).OK(moqt.Parameters{}))
		e.receive()
		other := p.request(&moqt.SubscribeNamespace{Prefix: moqt.Namespace{"z"}})
		second := <-h.discovers
		require.NoError(p, second.OK())
		require.IsType(p, &moqt.RequestOK{}, other.receive())
		other.update(moqt.Parameters{NamespacePrefix: &moqt.Namespace{"a", "x"}})
		refused := &moqt.RequestError{}
		require.ErrorAs(p, (<-second.Updates()).OK(moqt.Parameters{}), &refused)
		other.requireRefused(moqt.RequestPrefixOverlap)
		<-second.Context().Done()

		e.update(moqt.Parameters{NamespacePrefix: &moqt.Namespace{".session"}})
		require.ErrorAs(p, (<-n.Updates()).OK(moqt.Parameters{}), &refused)
		e.requireRefused(moqt.RequestDoesNotExist)
		<-n.Context().Done()
		require.Error(p, n.Add(ab, moqt.Parameters{}))

		e = p.request(&moqt.SubscribeNamespace{})
		n = <-h.discovers
		require.NoError(p, n.OK())
		require.NoError(p, e.Close()) // FIN cancels
		<-n.Context().Done()
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		e.requireEOF()
	})
}

func TestSubscriberOfNamespacesThatDoesNotRead(t *testing.T) {
	h := newHandler()
	set := setting{
		cfg:  Config{Role: Server, Handler: h, Limits: Limits{MaxSendQueue: 10_000}},
		pipe: transporttest.PipeConfig{StreamWindow: 100},
	}
	play(t, set, func(p *script) {
		p.request(&moqt.SubscribeNamespace{})
		n := <-h.discovers
		require.NoError(p, n.OK())
		started := time.Now()
		for i := 0; n.Add(moqt.Namespace{fmt.Sprint(i)}, moqt.Parameters{}) == nil; i++ {
			require.Less(p, i, 10_000)
		}
		require.Zero(p, time.Since(started), "Add waits for the peer")
		<-n.Context().Done()
		require.ErrorIs(p, context.Cause(n.Context()), errStalled)

		p.request(&moqt.SubscribeNamespace{})
		n = <-h.discovers
		require.NoError(p, n.OK())
		for i := range 50 {
			require.NoError(p, n.Add(moqt.Namespace{fmt.Sprint(i)}, moqt.Parameters{}))
		}
		<-n.Context().Done()
		require.Equal(p, writeTimeout, time.Since(started))
		require.ErrorIs(p, context.Cause(n.Context()), errStalled)
		p.requireOpen()
	})
}

func TestSubscribeTracks(t *testing.T) {
	play(t, setting{}, func(p *script) {
		blocked := make(chan moqt.FullTrackName, 10)
		n, err := p.s.SubscribeTracks(p.Context(), moqt.SubscribeTracks{Prefix: moqt.Namespace{"a"}},
			func(track moqt.FullTrackName) { blocked <- track })
		require.NoError(p, err)
		e := p.accept()
		e.receive()
		e.send(&moqt.RequestOK{}, &moqt.PublishBlocked{Suffix: moqt.Namespace{"b"}, TrackName: "v"})
		require.NoError(p, n.Wait(p.Context()))
		require.Equal(p, moqt.FullTrackName{Namespace: moqt.Namespace{"a", "b"}, Name: "v"}, <-blocked)
		go func() {
			e.receive()
			e.send(&moqt.RequestOK{}, &moqt.PublishBlocked{TrackName: "w"})
		}()
		require.NoError(p, n.Update(p.Context(), moqt.Parameters{NamespacePrefix: &moqt.Namespace{"c"}}))
		require.Equal(p, moqt.FullTrackName{Namespace: moqt.Namespace{"c"}, Name: "w"}, <-blocked)
	})
}

func TestServeASubscribeTracks(t *testing.T) {
	serve(t, func(p *script, h *handler) {
		e := p.request(&moqt.SubscribeTracks{
			Prefix: moqt.Namespace{"example"}, Parameters: moqt.Parameters{Forward: new(false)},
		})
		n := <-h.tracks
		require.False(p, n.Message.Parameters.ForwardState())
		require.NoError(p, n.OK())
		require.NoError(p, n.Blocked(testTrack))
		require.Error(p, n.Blocked(moqt.FullTrackName{Namespace: moqt.Namespace{"elsewhere"}}))
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		require.Equal(p, &moqt.PublishBlocked{Suffix: moqt.Namespace{"room"}, TrackName: "video"}, e.receive())
		e.CancelWrite(0)
		<-n.Context().Done()
	})
}

// TestNamesAreShared reports a namespace to two peers, as to thousands: the relay keeps its name once.
func TestNamesAreShared(t *testing.T) {
	var keys []unique.Handle[string]
	for range 2 {
		serve(t, func(p *script, h *handler) {
			p.request(&moqt.SubscribeNamespace{})
			n := <-h.discovers
			require.NoError(p, n.OK())
			require.NoError(p, n.Add(moqt.Namespace{strings.Repeat("a", 4000)}, moqt.Parameters{}))
			keys = append(keys, slices.Collect(maps.Keys(n.active))...)
		})
	}
	require.Len(t, keys, 2)
	require.True(t, keys[0] == keys[1])
}
