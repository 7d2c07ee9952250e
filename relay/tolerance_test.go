package relay

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport/transporttest"
)

// as makes a client that names an implementation.
func as(implementation string) func(*session.Config) {
	return func(c *session.Config) { c.Implementation = implementation }
}

// Players of moq-dev and Shaka subscribe after the Largest Object, and need the current group all the same.
func TestCurrentGroupForThoseThatMissIt(t *testing.T) {
	late := moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterLargestObject}}
	for name, tt := range map[string]struct {
		implementation, protocol string
		strict                   bool
		want                     string
	}{
		"moq-lite-rs": {"moq-lite-rs", "moqt-18", false, "6.0, 6.1, 6.2, 6 fin, 7.0, 7 fin"},
		"moq-lite-js": {"moq-lite-js", "moqt-18", false, "6.0, 6.1, 6.2, 6 fin, 7.0, 7 fin"},
		"Shaka":       {"ShakaPlayer/v5.2.12", "moqt-16", false, "6.0, 6.1, 6.2, 6 fin, 7.0, 7 fin"},
		"strict":      {"moq-lite-js", "moqt-18", true, "6.2, 6 fin, 7.0, 7 fin"},
		"another":     {"sluice", "moqt-18", false, "6.2, 6 fin, 7.0, 7 fin"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{Session: session.Config{Strict: tt.strict}}, func(b *bench) {
				src := b.origin(&source{})
				b.connect().mustSubscribe(moqt.Parameters{})
				src.group(5, 3)
				g := src.open(moqt.SubgroupHeader{GroupID: 6, FirstObject: true}).object(0).object(1)
				player := b.connectWith(transporttest.PipeConfig{Protocol: tt.protocol}, as(tt.implementation))
				k, _ := player.mustSubscribe(late)
				synctest.Wait()
				g.object(2).fin()
				src.group(7, 1)
				require.Equal(t, tt.want, k.take())
			})
		})
	}
}

// A joining FETCH would bring the objects a second time. It brings older groups.
func TestCurrentGroupIsNotFetchedToo(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		src := b.origin(&source{})
		b.connect().mustSubscribe(moqt.Parameters{})
		src.group(1, 3)
		src.open(moqt.SubgroupHeader{GroupID: 2}).object(0).object(1)
		synctest.Wait()
		c := b.connect(as("moq-lite-rs"))
		k, s := c.mustSubscribe(moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterLargestObject}})
		require.Equal(t, "2.0, 2.1", k.take())
		join := moqt.Fetch{FetchType: moqt.FetchRelativeJoining, JoiningRequestID: s.ID()}
		b.refused(c.fetch(join).err, moqt.RequestInvalidRange)
		join.JoiningStart = 1
		require.NoError(t, c.fetch(join).err)
	})
}

// The publishers of moq-dev answer FETCH with priority 0. Objects keep that of their subgroup, or get the default, and
// may come by subscription later.
func TestFetchWithoutPriority(t *testing.T) {
	for name, tt := range map[string]struct {
		implementation string
		strict         bool
		malformed      bool
	}{
		"moq-lite-rs": {"moq-lite-rs", false, false},
		"strict":      {"moq-lite-rs", true, true},
		"another":     {"sluice", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{Session: session.Config{Strict: tt.strict}}, func(b *bench) {
				pub := b.connect(as(tt.implementation))
				src := pub.serve(&source{})
				pub.handler.fetch = (&archive{size: 3, largest: at(1, 2), flat: true, delay: time.Second}).serve
				pub.announce("live")
				c := b.connect()
				k, s := c.mustSubscribe(moqt.Parameters{})
				h := moqt.SubgroupHeader{GroupID: 1, Priority: 7}
				g := src.open(h).object(0).object(2)
				require.Equal(t, "1.0, 1.2", k.take())
				priorities, err := c.priorities(standalone(at(0, 0), at(1, 3)))
				if tt.malformed {
					require.Error(t, err)
					b.done(s, moqt.DoneMalformedTrack)
					return
				}
				require.NoError(t, err)
				require.Equal(t, []uint8{128, 128, 128, 7, 7, 7}, priorities)
				g.fin()
				h.GroupID = 0
				src.open(h).object(0).object(1).object(2).fin()
				require.Equal(t, "0.0, 0.1, 0.2, 0 fin, 1 fin", k.take())
				require.NoError(t, s.Context().Err())
			})
		})
	}
}

// priorities returns the priorities of the objects in the response to a FETCH.
func (c *client) priorities(m moqt.Fetch) (list []uint8, err error) {
	f, err := c.Fetch(c.b.ctx, m)
	require.NoError(c.b.t, err)
	stream, err := f.Stream(c.b.ctx)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(stream)
	p := moqt.NewFetchParser(moqt.Draft18, moqt.Ascending, 0)
	for len(b) > 0 {
		o, n, perr := p.Next(b)
		if perr != nil {
			return list, perr
		}
		if o.Kind == moqt.FetchKindObject {
			list = append(list, o.Priority)
		}
		b = b[n:]
		p.Next(b[:o.PayloadLength])
		b = b[o.PayloadLength:]
	}
	return list, err
}
