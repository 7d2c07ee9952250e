package sub

import (
	"context"
	"slices"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/loc"
)

// relayChooses reports whether the relay is to choose among the renditions of a lane, and can.
func (e *playing) relayChooses(ctx context.Context, l *lane) (bool, error) {
	if !e.p.cfg.automatic() || len(e.p.player.sourcesOf(l)) < 2 {
		return false, nil
	}
	peer, err := e.link.Peer(ctx)
	can := peer.Renditions && e.link.Version() >= moqt.Draft18
	if err == nil && !can {
		e.p.log.Info("this relay does not choose renditions, so the first one goes on", "relay", e.link.Name())
	}
	return can, err
}

// rendition says which set a subscription belongs to: each lane is one.
func (r *laneReceiver) rendition() *moqt.Rendition {
	set := slices.Index(r.e.p.player.lanes, r.lane)
	t := r.source.entry
	return &moqt.Rendition{
		Set: uint64(set), Bitrate: uint64(t.Bitrate), Width: uint64(max(t.Width, 0)), Height: uint64(max(t.Height, 0)),
	}
}

// tellDisplay tells the relay the size of the display, if it is known. What waits to be shown is not: that is with the
// program that reads the output.
func (e *playing) tellDisplay(ctx context.Context, s *session.Subscription) {
	display := moqt.Playback{Width: uint64(e.p.cfg.Width), Height: uint64(e.p.cfg.Height)}
	if display == (moqt.Playback{}) {
		return
	}
	if _, err := s.Update(ctx, moqt.Parameters{Playback: &display}); err != nil {
		e.p.log.Debug("cannot tell the relay the size of the display", "error", err)
	}
}

// HandleState implements [session.StateReceiver].
func (r *laneReceiver) HandleState(p moqt.Parameters) {
	if p.Forward != nil && *p.Forward {
		r.e.p.log.Info("the relay changes to another rendition", "to", r.e.name(r.source).Name)
	}
}

// offerOthers subscribes to the other renditions, of which the relay sends nothing until it changes to one. A rendition
// that cannot be had is left out. The function that it returns ends the subscriptions.
func (e *playing) offerOthers(ctx context.Context, playing *laneReceiver) (end func()) {
	var subs []*session.Subscription
	for _, source := range e.p.player.sourcesOf(playing.lane) {
		if source == playing.source {
			continue
		}
		r := &laneReceiver{e: e, lane: playing.lane, source: source, first: playing.first}
		p := moqt.Parameters{Rendition: r.rendition(), Forward: new(bool)}
		s, _, err := e.subscribe(ctx, r, fromNextGroup, p, 0)
		if err != nil {
			e.p.log.Warn("the relay cannot change to a rendition", "track", e.name(source).Name, "error", err)
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

// setTimescale takes the timescale from the properties of the track.
func (r *laneReceiver) setTimescale(s *session.Subscription) {
	if f := r.source.frames; f != nil {
		r.update(func(*sequencer) { f.mux.SetTimescale(loc.Timescale(s.Properties())) })
	}
}
