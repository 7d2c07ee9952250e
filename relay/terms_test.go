package relay

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/fetch"
	"sluice/transport"
)

// kinds are the kinds of peers that a relay has. Each function connects a client that is such a peer, or one that is
// with another relay, or process of the relay, that is such a peer.
var kinds = []struct {
	name string
	join func(b, other *bench) *client
}{
	{"client", func(b, _ *bench) *client { return b.connect() }},
	{"own", func(b, _ *bench) *client { return b.connectOwn() }},
	{"origin", func(b, _ *bench) *client { return b.connect(asOrigin) }},
	{"relay7", func(b, _ *bench) *client { return b.connect(asRelay(7)) }},
	{"relay9", func(b, _ *bench) *client { return b.connect(asRelay(9)) }},
	{"link", func(b, other *bench) *client { link(b, other); return other.connect() }},
	{"upstream", func(b, other *bench) *client {
		before, _ := (*b.relay.neighbors.routes.Load()).(RouteTable)
		u, _ := b.open(other, moqt.Namespace{})
		for _, r := range before {
			b.relay.neighbors.SetRoutes(RouteTable{{Upstreams: append(r.Upstreams, u)}})
		}
		return other.connect()
	}},
}

// connectOwn connects the relay's own session, for a guest who may have every track.
func (b *bench) connectOwn() *client {
	g, a := b.admit(guestFrom("192.0.2.1", ActionSubscribe)), NewAudience()
	require.NoError(b.t, a.Join(b.ctx, g))
	defer func() { b.serve = b.relay.Serve }()
	b.serve = func(ctx context.Context, c transport.Conn) error { return b.relay.ServeOwn(ctx, c, a) }
	c := b.connect()
	context.AfterFunc(c.Context(), g.Leave)
	return c
}

// publishAny publishes a track, unless the client is refused that. It answers TRACK_STATUS.
func (c *client) publishAny(announces bool) *source {
	c.handler.trackStatus = func(s *session.IncomingTrackStatus) { s.OK(moqt.Parameters{}, nil) }
	src := c.serve(&source{})
	if !announces {
		_, _ = src.offer(c, moqt.Parameters{})
		return src
	}
	p, err := c.PublishNamespace(c.b.ctx, moqt.PublishNamespace{Namespace: video.Namespace})
	require.NoError(c.b.t, err)
	_ = p.Wait(c.b.ctx)
	return src
}

// gets returns what a client gets of what another one publishes: "t" if it is told of the namespace or track, "a" if
// its TRACK_STATUS is answered, "f" if it is fed.
func (c *client) gets(src *source) (got string) {
	n, _ := c.watch(video.Namespace...)
	o := c.acceptOffers(&offered{refuse: fetch.ErrNoSource})
	_, _ = c.subscribeTracks(moqt.Parameters{})
	if len(n.now())+len(o.subs) > 0 {
		got += "t"
	}
	if _, err := c.TrackStatus(c.b.ctx, moqt.TrackStatus{Track: video}); err == nil {
		got += "a"
	}
	if k, _, err := c.subscribe(moqt.Parameters{}); err == nil {
		src.group(1, 1)
		require.Equal(c.b.t, "1.0, 1 fin", k.take())
		got += "f"
	}
	return cmp.Or(got, "-")
}

// TestWhoGetsWhat has a peer of each kind publish, by PUBLISH_NAMESPACE or PUBLISH, and one of each kind ask: the rows
// publish, the columns ask. A client that lacks the track has announced a namespace above it, so that upstream relays
// may ask.
func TestWhoGetsWhat(t *testing.T) {
	const want = `
         client own origin relay7 relay9 link upstream
client   taf    f   taf    taf    taf    taf  taf
own      -      -   -      -      -      -    -
origin   taf    f   taf    taf    taf    taf  taf
relay7   taf    f   taf    -      taf    taf  taf
relay9   taf    f   taf    taf    -      taf  taf
link     taf    f   taf    taf    taf    -    -
upstream taf    f   -      taf    taf    -    -`
	for _, announces := range []bool{true, false} {
		var header, rows []string
		for _, feeder := range kinds {
			header, rows = append(header, feeder.name), append(rows, feeder.name)
			for _, asker := range kinds {
				onBenches(t, Config{}, 3, func(bs []*bench) {
					bs[0].connect().announce("live")
					src := feeder.join(bs[0], bs[1]).publishAny(announces)
					rows = append(rows, asker.join(bs[0], bs[2]).gets(src))
				})
			}
		}
		require.Equal(t, strings.Fields(want), append(header, rows...))
	}
}
