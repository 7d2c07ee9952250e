package relay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// exact takes all that a subscriber receives, object by object.
type exact struct {
	layout moqt.DataLayout
	mu     sync.Mutex
	got    []string
}

func (e *exact) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, fmt.Sprintf(format, args...))
}

// take returns what has come since the last call. Of several streams, the stream of the lower subgroup comes first.
func (e *exact) take() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	got := e.got
	e.got = nil
	slices.Sort(got)
	return got
}

func (e *exact) HandleSubgroup(g *session.Subgroup) {
	b, err := io.ReadAll(g)
	h := g.Header
	p := moqt.NewSubgroupParser(e.layout, h, 0)
	at, i := fmt.Sprintf("%d/%d", h.GroupID, h.SubgroupID), 0
	for {
		o, n, err := p.Next(b)
		if err != nil {
			break
		}
		b = b[n:]
		whole := min(o.PayloadLength, uint64(len(b)))
		e.note("%s #%d: id %d, properties %x, %v, %d bytes, priority %d, %s", at, i, o.ObjectID, o.Properties, o.Status,
			o.PayloadLength, h.Priority, brief(b[:whole]))
		i++
	}
	end := "fin"
	if reset, ok := errors.AsType[*transport.StreamError](err); ok {
		end = fmt.Sprint("reset ", reset.Code)
	}
	e.note("%s: %s", at, end)
}

func (e *exact) HandleDatagram(o *moqt.ObjectDatagram) {
	e.note("datagram %v, properties %x, %v, priority %d, ends %v, %s", o.Location, o.Properties, o.Status, o.Priority,
		o.EndOfGroup, brief(o.Payload))
}

// brief stands for a payload.
func brief(b []byte) string {
	if len(b) < 20 {
		return string(b)
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// TestTranslation lets publishers and subscribers of versions with different data layouts share a track: the same
// objects arrive at all, to the last bit, those who come late included.
func TestTranslation(t *testing.T) {
	properties := func(value uint64) moqt.Properties {
		p, err := moqt.NewProperties(moqt.KeyValuePair{Type: 0x40, Value: value},
			moqt.KeyValuePair{Type: 0x1041, Bytes: []byte{0xff, 0, 0x80}})
		require.NoError(t, err)
		return p
	}
	three := []moqt.Version{moqt.Draft16, moqt.Draft18, moqt.Draft22}
	for _, here := range three {
		t.Run(fmt.Sprint("from ", uint16(here)), func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				src := b.speaks(here).serve(&source{})
				src.c.announce("live")
				subscribe := func() (all []*exact) {
					for _, v := range three {
						e := &exact{layout: v.DataLayout()}
						s, err := b.speaks(v).Subscribe(b.ctx, moqt.Subscribe{Track: video}, e)
						require.NoError(t, err)
						_, err = s.Wait(b.ctx)
						require.NoError(t, err)
						all = append(all, e)
					}
					return all
				}
				first := subscribe()
				large := bytes.Repeat([]byte("many"), 1250)
				g := src.open(moqt.SubgroupHeader{GroupID: 1000, HasProperties: true, Priority: 200, FirstObject: true})
				g.write(moqt.ObjectHeader{Properties: properties(70)}, "zero")
				g.write(moqt.ObjectHeader{ObjectID: 5}, string(large))
				late := subscribe()
				g.write(moqt.ObjectHeader{ObjectID: 300, Properties: properties(1 << 40)}, "after a gap")
				g.write(moqt.ObjectHeader{ObjectID: 301}, "")
				cut := src.open(moqt.SubgroupHeader{
					GroupID: 1000, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 90, Priority: 7,
				})
				enc, err := cut.encoder.AppendObject(nil, moqt.ObjectHeader{ObjectID: 400, PayloadLength: 100})
				require.NoError(t, err)
				_, err = cut.stream.Write(append(enc, "a part"...))
				require.NoError(t, err)
				synctest.Wait()
				require.NoError(t, src.publication().SendDatagram(moqt.ObjectDatagram{
					Location: at(1000, 500), Priority: 99, Properties: properties(100), Payload: []byte("datagram"),
				}))
				synctest.Wait()
				cut.reset(77)
				g.write(moqt.ObjectHeader{ObjectID: 501, Status: moqt.StatusEndOfGroup}, "")
				g.fin()
				want := []string{
					fmt.Sprintf("1000/0 #0: id 0, properties %x, normal, 4 bytes, priority 200, zero", properties(70)),
					"1000/0 #1: id 5, properties , normal, 5000 bytes, priority 200, " + brief(large),
					fmt.Sprintf("1000/0 #2: id 300, properties %x, normal, 11 bytes, priority 200, after a gap",
						properties(1<<40)),
					"1000/0 #3: id 301, properties , normal, 0 bytes, priority 200, ",
					"1000/0 #4: id 501, properties , end of group, 0 bytes, priority 200, ",
					"1000/0: fin",
					"1000/90 #0: id 400, properties , normal, 100 bytes, priority 7, a part",
					"1000/90: reset 77",
					fmt.Sprintf("datagram {1000, 500}, properties %x, normal, priority 99, ends false, datagram",
						properties(100)),
				}
				for i, e := range append(first, late...) { // the late ones get the current group from its start
					require.Equal(t, want, e.take(), "subscriber %d", i)
				}
			})
		})
	}
}
