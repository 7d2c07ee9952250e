package session

import (
	"context"

	"sluice/moqt"
)

// trackStatus is a TRACK_STATUS of this end.
type trackStatus struct {
	*Request
	baseRole
	ok *moqt.RequestOK // guarded by s.mu
}

// result waits for the response, and ends the request.
func (t *trackStatus) result(ctx context.Context) (*moqt.RequestOK, error) {
	if err := t.wait(ctx); err != nil {
		t.Cancel(moqt.ResetCancelled) // if it is not over
		return nil, err
	}
	t.end(ErrFinished)
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
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

// OK answers with the contents of a SUBSCRIBE_OK: LargestObject if there is one, and the Track Properties.
func (t *IncomingTrackStatus) OK(parameters moqt.Parameters, properties moqt.Properties) error {
	if !t.Message.Parameters.WantsProperties() {
		properties = nil
	}
	if err := t.answer(&moqt.RequestOK{Parameters: parameters, Properties: properties}); err != nil {
		return err
	}
	t.end(ErrFinished)
	return nil
}

// serve implements role.
func (t *IncomingTrackStatus) serve(h Handler) { h.HandleTrackStatus(t) }
