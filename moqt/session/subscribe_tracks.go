package session

import (
	"context"

	"sluice/moqt"
)

// TracksSubscription is a SUBSCRIBE_TRACKS of this end (draft §6.1). The tracks arrive as PUBLISH requests, at
// [Handler.HandlePublish]. They stay when this request ends.
type TracksSubscription struct {
	*Request
	baseRole
	blocked func(moqt.FullTrackName)
	prefix  moqt.Namespace // guarded by s.mu
	filled  bool           // the tracks come with fills
}

// Wait waits for the response. The end of ctx does not cancel the request.
func (t *TracksSubscription) Wait(ctx context.Context) error { return t.wait(ctx) }

// Update changes the parameters, among them the prefix, with REQUEST_UPDATE, and waits for the response. Subscriptions
// to tracks stay.
func (t *TracksSubscription) Update(ctx context.Context, parameters moqt.Parameters) error {
	if parameters.NamespacePrefix != nil {
		t.awaitFills(t.s, *parameters.NamespacePrefix)
	}
	_, err := t.sent.update(ctx, parameters, func(*moqt.RequestOK) {
		if parameters.NamespacePrefix != nil {
			t.prefix = *parameters.NamespacePrefix
		}
	})
	return err
}

// awaitFills expects the fills of the tracks with a prefix, if they come with fills.
func (t *TracksSubscription) awaitFills(s *Session, prefix moqt.Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.filled {
		s.table.awaitFillsOfOffers(prefix)
	}
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

// IncomingSubscribeTracks is a SUBSCRIBE_TRACKS of the peer (draft §6.1). The application then publishes the tracks,
// with the Forward State of Message.
type IncomingSubscribeTracks struct {
	prefixSubscription
	Message moqt.SubscribeTracks
}

// Blocked reports to the peer that there is no stream left to publish a track. The track must not be published
// afterwards (draft §6.1).
func (t *IncomingSubscribeTracks) Blocked(track moqt.FullTrackName) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	suffix, err := t.suffixLocked(track.Namespace)
	if err != nil {
		return err
	}
	return t.send(&moqt.PublishBlocked{Suffix: suffix, TrackName: track.Name}, false)
}

// Parameters returns the parameters of the subscriptions that result: the SUBSCRIBE_TRACKS's own, with the updates
// accepted since. They are without tokens.
func (t *IncomingSubscribeTracks) Parameters() moqt.Parameters {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	p := t.Message.Parameters
	p.HopPath, p.NamespacePrefix = nil, nil
	return p
}

// updateLocked implements role.
func (t *IncomingSubscribeTracks) updateLocked(u *Update, response *moqt.Parameters) *moqt.RequestError {
	refused := t.prefixSubscription.updateLocked(u, response)
	if refused == nil {
		t.Message.Parameters.Merge(&u.Parameters)
	}
	return refused
}

// admitLocked implements role.
func (t *IncomingSubscribeTracks) admitLocked() error {
	return asError(t.enterPrefixLocked(t.Message.Prefix))
}

// serve implements role.
func (t *IncomingSubscribeTracks) serve(h Handler) { h.HandleSubscribeTracks(t) }
