package hostile

import (
	"bytes"
	"errors"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
)

// contradicts announces the victim's namespace, and sends other objects under the same ids.
func contradicts(p *Peer) error {
	group, err := p.knownGroup()
	if err != nil {
		return err
	}
	n, err := p.PublishNamespace(p.Context(), moqt.PublishNamespace{Namespace: p.victim.Namespace})
	if err != nil {
		return err
	}
	if err := n.Wait(p.Context()); err != nil {
		return err
	}
	select {
	case s := <-p.asked:
		return p.impersonate(s, group)
	case <-p.Context().Done():
		return p.Context().Err()
	case <-time.After(patience):
		return errors.New("the relay does not subscribe")
	}
}

// offers offers the victim by PUBLISH.
func offers(p *Peer) error {
	group, err := p.knownGroup()
	if err != nil {
		return err
	}
	s, err := p.publish(p.victim)
	if err != nil {
		return err
	}
	return p.impersonate(s, group)
}

// knownGroup returns a group of the victim that subscribers already have: the last before the current one.
func (p *Peer) knownGroup() (uint64, error) {
	s, err := p.Subscribe(p.Context(), moqt.Subscribe{Track: p.victim}, unread{p.Context()})
	if err != nil {
		return 0, err
	}
	defer s.Cancel(moqt.ResetCancelled)
	ok, err := s.Wait(p.Context())
	if err != nil {
		return 0, err
	}
	if ok.Parameters.LargestObject == nil {
		return 0, errors.New("the victim has no object yet")
	}
	return max(ok.Parameters.LargestObject.Group, 1) - 1, nil
}

// impersonate publishes an object that differs from the object that subscribers already have, until the relay refuses
// it: at first the relay takes it for a publisher that was restarted.
func (p *Peer) impersonate(s *session.Publication, group uint64) error {
	for range 200 {
		h := moqt.SubgroupHeader{GroupID: group, FirstObject: true}
		stream, err := s.OpenSubgroup(s.Context(), h)
		if err != nil {
			return nil // the relay has ended it
		}
		const forged = 100 // bytes
		encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
		b, _ := encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: forged})
		_, _ = stream.Write(append(b, bytes.Repeat([]byte("!"), forged)...))
		select {
		case <-s.Context().Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
	return undefended("the relay takes objects of an impostor")
}
