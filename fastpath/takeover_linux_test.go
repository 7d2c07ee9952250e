package fastpath_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// follower follows one subgroup that does not end.
type follower struct {
	mu      sync.Mutex
	streams int
	objects uint64
	err     error
	more    chan struct{}
}

func (f *follower) HandleDatagram(*moqt.ObjectDatagram) {}

// HandleSubgroup expects the objects one after the other, with the bytes that were sent.
func (f *follower) HandleSubgroup(g *session.Subgroup) {
	f.mu.Lock()
	f.streams++
	f.mu.Unlock()
	var rest []byte
	var object *moqt.SubgroupObject // whose payload comes
	parser := moqt.NewSubgroupParser(moqt.DataLayout1, g.Header, 0)
	for buf := make([]byte, 16<<10); ; {
		n, err := g.Read(buf)
		if err != nil {
			return
		}
		for rest = append(rest, buf[:n]...); ; {
			if object == nil {
				o, n, err := parser.Next(rest)
				if err != nil {
					break
				}
				object, rest = new(*o), rest[n:]
			}
			size := int(object.PayloadLength)
			if len(rest) < size {
				break
			}
			_, _, _ = parser.Next(rest[:size])
			f.take(g.Header.GroupID, object.ObjectID, rest[:size])
			object, rest = nil, rest[size:]
		}
	}
}

func (f *follower) take(group, object uint64, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if object != f.objects || !bytes.Equal(body, payload(group, object, len(body))) {
		f.err = fmt.Errorf("object %d came after %d", object, f.objects)
	}
	f.objects++
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// await waits until n objects have come on one stream.
func (f *follower) await(t *testing.T, n uint64) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		f.mu.Lock()
		objects, streams, err := f.objects, f.streams, f.err
		f.mu.Unlock()
		require.NoError(t, err)
		require.LessOrEqual(t, streams, 1, "streams")
		if objects >= n {
			return
		}
		select {
		case <-f.more:
		case <-deadline:
			require.FailNow(t, "objects are missing", "%d of %d came", objects, n)
		}
	}
}

// endless is a publisher's stream with objects of 1,000 bytes.
type endless struct {
	t       *testing.T
	stream  transport.SendStream
	encoder moqt.SubgroupEncoder
	objects uint64
}

func newEndless(t *testing.T, pub *session.Publication) *endless {
	h := present(7, 0)
	h.FirstObject = true
	stream, err := pub.OpenSubgroup(t.Context(), h)
	require.NoError(t, err)
	return &endless{t: t, stream: stream, encoder: moqt.NewSubgroupEncoder(moqt.DataLayout1, h)}
}

// next returns the bytes of the next object.
func (e *endless) next() []byte {
	p, err := e.encoder.AppendObject(nil, moqt.ObjectHeader{ObjectID: e.objects, PayloadLength: 1000})
	require.NoError(e.t, err)
	p = append(p, payload(7, e.objects, 1000)...)
	e.objects++
	return p
}

func (e *endless) send(p []byte) {
	_, err := e.stream.Write(p)
	require.NoError(e.t, err)
}

// TestTakeover has two publishers of a group that does not end. One leaves within an object. The other's stream goes on
// with it, for subscribers on the stream that they have, and the kernel forwards it, also to one who comes later.
func TestTakeover(t *testing.T) {
	w := newWorld(t, worldConfig{topology: lab.Topology{Subscribers: 3}})
	leaving, s := w.publisherOf("live", w.lab.Publisher, "moqt")
	staying := w.publisher("moqt")
	var viewers []*follower
	watch := func(from uint64) {
		f := &follower{more: make(chan struct{}, 1), objects: from}
		c := w.connect(w.lab.Subscribers[len(viewers)], "moqt", nil, transport.Limits{})
		sub, err := c.Subscribe(t.Context(), moqt.Subscribe{Track: trackName(0)}, f)
		require.NoError(t, err)
		_, err = sub.Wait(t.Context())
		require.NoError(t, err)
		viewers = append(viewers, f)
	}
	watch(0)
	watch(0)
	a, b := newEndless(t, <-leaving.subscribed), newEndless(t, <-staying.subscribed)
	for range 10 {
		a.send(a.next())
		b.send(b.next())
	}
	a.send(a.next()[:500])
	for _, v := range viewers {
		v.await(t, 10)
	}
	s.Close(moqt.SessionNoError, "")
	forwards := func() {
		before := w.look().Reasons["copy_sent"]
		for w.look().Reasons["copy_sent"] < before+100 {
			if b.objects >= 2000 {
				require.FailNow(t, "the kernel forwards nothing", "%v", w.report())
			}
			b.send(b.next())
			for _, v := range viewers {
				v.await(t, b.objects)
			}
		}
	}
	forwards()
	watch(0)
	viewers[2].await(t, b.objects)
	viewers = viewers[2:]
	forwards()
}
