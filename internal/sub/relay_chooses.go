package sub

import (
	"context"
	"slices"

	"sluice/moqt"
	"sluice/moqt/session"
)

// relayChooses reports whether the relay is to choose among the renditions of a lane, and can.
func (e *playing) relayChooses(ctx context.Context, l *lane) (bool, error) {
	if l.ladder == nil || e.p.cfg.Rendition != RenditionRelay {
		return false, nil
	}
	peer, err := e.link.Peer(ctx)
	can := peer.Renditions && e.link.Version() >= moqt.Draft18
	if err == nil && !can {
		e.p.log.Warn("this relay does not choose renditions, so the player does", "relay", e.link.Name())
	}
	return can, err
}

// rendition says which set a subscription belongs to: each lane is one.
func (r *laneReceiver) rendition() *moqt.Rendition {
	set := slices.Index(r.e.p.player.lanes, r.lane)
	return &moqt.Rendition{Set: uint64(set), Bitrate: uint64(r.source.entry.Bitrate)}
}

// offerOthers subscribes to the other renditions, of which the relay sends nothing until it changes to one. A rendition
// that cannot be had is left out. The function that it returns ends the subscriptions.
func (e *playing) offerOthers(ctx context.Context, playing *laneReceiver) (end func()) {
	var subs []*session.Subscription
	for _, source := range playing.lane.ladder.sources {
		if source == playing.source {
			continue
		}
		r := &laneReceiver{e: e, lane: playing.lane, source: source}
		m := request(source.choice.name, fromNextGroup)
		m.Parameters.Rendition, m.Parameters.Forward = r.rendition(), new(bool)
		s, _, err := subscribe(ctx, e.p.cfg, e.link, m, 0, r)
		if err != nil {
			e.p.log.Warn("the relay cannot change to a rendition", "track", source.choice.name.Name, "error", err)
			continue
		}
		r.setTimescale(s)
		subs = append(subs, s)
	}
	return func() {
		for _, s := range subs {
			s.Cancel(moqt.ResetCancelled)
		}
	}
}
