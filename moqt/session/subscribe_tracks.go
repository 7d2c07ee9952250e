package session

import (
	"context"
	"fmt"

	"sluice/moqt"
)

// TracksSubscription is a SUBSCRIBE_TRACKS of ours (draft §6.1). The tracks arrive as PUBLISH requests, at
// [Handler.HandlePublish]. They stay when this request ends.
type TracksSubscription struct {
	*Request
	baseRole
	blocked func(moqt.FullTrackName)
	prefix  moqt.Namespace // guarded by s.mu
}

// SubscribeTracks asks for PUBLISH requests for all tracks in namespaces with a prefix (draft §10.19). The Request ID
// of the message is filled in. For each track that the peer has no stream to publish on, blocked is called: such a
// track can be had with SUBSCRIBE. The next message of the peer waits for the end of the call. It waits only for a
// stream, at the peer's limit.
func (s *Session) SubscribeTracks(
	ctx context.Context, m moqt.SubscribeTracks, blocked func(moqt.FullTrackName),
) (*TracksSubscription, error) {
	t := &TracksSubscription{blocked: blocked, prefix: m.Prefix}
	err := s.request(ctx, s.waitForStream, &m, func(r *Request) role {
		t.Request = r
		return t
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to tracks under %s: %w", m.Prefix, err)
	}
	return t, nil
}

// Wait waits for the response. Giving up does not cancel the request.
func (t *TracksSubscription) Wait(ctx context.Context) error { return t.wait(ctx) }

// Update changes the parameters, among them the prefix, with REQUEST_UPDATE, and waits for the response. Subscriptions
// to tracks stay.
func (t *TracksSubscription) Update(ctx context.Context, parameters moqt.Parameters) error {
	_, err := t.update(ctx, parameters, func(*moqt.RequestOK) {
		if parameters.NamespacePrefix != nil {
			t.prefix = *parameters.NamespacePrefix
		}
	})
	return err
}

// message implements role.
func (t *TracksSubscription) message(m moqt.Message) error {
	b, ok := m.(*moqt.PublishBlocked)
	if !ok {
		return t.baseRole.message(m)
	}
	t.s.mu.Lock()
	track := moqt.FullTrackName{Namespace: t.prefix.Join(b.Suffix), Name: b.TrackName}
	t.s.mu.Unlock()
	if err := track.Validate(); err != nil {
		return violation("%v", err)
	}
	t.blocked(track)
	return nil
}

// closed implements role.
func (t *TracksSubscription) closed() (error, bool) { return ErrFinished, true }

// IncomingSubscribeTracks is a SUBSCRIBE_TRACKS of the peer (draft §6.1). It is answered with PUBLISH requests, which
// have the Forward State of its message.
type IncomingSubscribeTracks struct {
	prefixSubscription
	Message moqt.SubscribeTracks
}

// Blocked tells the peer that there is no stream to publish a track on. It must not be published afterwards
// (draft §6.1).
func (t *IncomingSubscribeTracks) Blocked(track moqt.FullTrackName) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	suffix, err := t.suffix(track.Namespace)
	if err != nil {
		return err
	}
	return t.out.send(&moqt.PublishBlocked{Suffix: suffix, TrackName: track.Name})
}

// admit implements role.
func (t *IncomingSubscribeTracks) admit() error { return asError(t.enterPrefix(t.Message.Prefix)) }

// serve implements role.
func (t *IncomingSubscribeTracks) serve(h Handler) { h.HandleSubscribeTracks(t) }
