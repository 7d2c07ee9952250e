package session

import (
	"context"
	"fmt"

	"sluice/moqt"
)

// trackStatus is a TRACK_STATUS of ours.
type trackStatus struct {
	*Request
	baseRole
	ok *moqt.RequestOK // guarded by s.mu
}

// TrackStatus asks for the largest object and the properties of a track (draft §10.14), and waits for the response.
// The Request ID of the message is filled in.
func (s *Session) TrackStatus(ctx context.Context, m moqt.TrackStatus) (*moqt.RequestOK, error) {
	t := &trackStatus{}
	err := s.request(ctx, s.waitForStream, &m, func(r *Request) role {
		t.Request = r
		return t
	})
	if err == nil {
		if err = t.wait(ctx); err != nil {
			t.Cancel(moqt.ResetCancelled) // if it is not over
		}
	}
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", m.Track, err)
	}
	t.end(ErrFinished)
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.ok, nil
}

// accepted implements role.
func (t *trackStatus) accepted(m moqt.Message) error {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.ok = m.(*moqt.RequestOK)
	return nil
}

// closed implements role.
func (t *trackStatus) closed() (error, bool) { return ErrFinished, true }

// IncomingTrackStatus is a TRACK_STATUS of the peer (draft §10.14).
type IncomingTrackStatus struct {
	*Request
	baseRole
	Message moqt.TrackStatus
}

// OK answers with what SUBSCRIBE_OK would have: LargestObject if there is one, and the Track Properties.
func (t *IncomingTrackStatus) OK(parameters moqt.Parameters, properties moqt.Properties) error {
	if err := t.answer(&moqt.RequestOK{Parameters: parameters, Properties: properties}); err != nil {
		return err
	}
	t.end(ErrFinished)
	return nil
}

// serve implements role.
func (t *IncomingTrackStatus) serve(h Handler) { h.HandleTrackStatus(t) }
