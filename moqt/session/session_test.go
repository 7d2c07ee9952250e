package session

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport/transporttest"
)

type testHandler struct {
	Unsupported
	subscribe func(*Publication)
}

func (h testHandler) HandleSubscribe(p *Publication) { h.subscribe(p) }

type testReceiver struct {
	subgroups chan []byte
	datagrams chan *moqt.ObjectDatagram
}

func (r testReceiver) HandleSubgroup(g *Subgroup) {
	b, _ := io.ReadAll(g)
	r.subgroups <- b
}
func (r testReceiver) HandleDatagram(o *moqt.ObjectDatagram) { r.datagrams <- o }

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, sv := transporttest.Pipe(transporttest.Config{})
		track := moqt.FullTrackName{Namespace: moqt.Namespace{"a", "b"}, Name: "v"}
		client, err := New(c, Config{Authority: "localhost:4443", Path: "/x"})
		require.NoError(t, err)
		server, err := New(sv, Config{Role: Server, Handler: testHandler{subscribe: func(p *Publication) {
			require.NoError(t, p.Accept(moqt.Parameters{}, nil))
			st, err := p.OpenSubgroup(p.Context(), moqt.SubgroupHeader{GroupID: 7})
			require.NoError(t, err)
			_, err = st.Write([]byte("hello"))
			require.NoError(t, err)
			require.NoError(t, st.Close())
			require.NoError(t, p.Done(moqt.DoneTrackEnded, "bye"))
		}}})
		require.NoError(t, err)
		go client.Run(context.Background())
		go server.Run(context.Background())
		r := testReceiver{make(chan []byte, 1), make(chan *moqt.ObjectDatagram, 1)}
		sub, err := client.Subscribe(t.Context(), moqt.Subscribe{Track: track}, r)
		require.NoError(t, err)
		_, err = sub.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, "hello", string(<-r.subgroups))
		<-sub.Context().Done()
		require.ErrorContains(t, context.Cause(sub.Context()), "TRACK_ENDED: bye")
		client.Close(0, "")
		synctest.Wait()
	})
}
