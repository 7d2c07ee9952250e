package session

import (
	"context"
	"errors"
	"fmt"

	"sluice/moqt"
	"sluice/transport"
)

// Publication is the publisher's end of a subscription (draft §5.1), whichever end asked for it: [Handler] gets one for
// each SUBSCRIBE, and [Session.Publish] returns one.
type Publication struct {
	*Request
	baseRole
	track      moqt.FullTrackName
	alias      uint64
	properties moqt.Properties

	// Guarded by s.mu.
	parameters   moqt.Parameters // of the subscriber, with updates
	forward      bool
	joining      *moqt.Location
	established  bool
	streams      uint64
	updateDenied bool
}

// newSubscribed is the publication that a SUBSCRIBE of the peer asks for.
func newSubscribed(r *Request, m *moqt.Subscribe) *Publication {
	return &Publication{Request: r, track: m.Track, parameters: m.Parameters, forward: m.Parameters.ForwardState()}
}

// Publish offers a track to the peer (draft §10.10). Request ID and Track Alias of the message are filled in. Objects
// may be sent at once, unless the message says Forward 0. It waits only for a stream, at the peer's limit.
func (s *Session) Publish(ctx context.Context, m moqt.Publish) (*Publication, error) {
	return s.publish(ctx, s.waitForStream, m)
}

// TryPublish is Publish, but fails with [transport.ErrStreamLimit] instead of waiting for a stream. Then a
// PUBLISH_BLOCKED is due: see [IncomingSubscribeTracks.Blocked].
func (s *Session) TryPublish(m moqt.Publish) (*Publication, error) {
	return s.publish(s.ctx, s.tryStream, m)
}

func (s *Session) publish(ctx context.Context, open openFunc, m moqt.Publish) (*Publication, error) {
	p := &Publication{
		track:      m.Track,
		properties: m.Properties,
		forward:    m.Parameters.ForwardState(),
		joining:    m.Parameters.LargestObject,
	}
	m.TrackAlias = s.newAlias()
	p.alias = m.TrackAlias
	err := s.request(ctx, open, &m, func(r *Request) role {
		p.Request = r
		return p
	})
	if err != nil {
		return nil, fmt.Errorf("publish %s: %w", m.Track, err)
	}
	return p, nil
}

// newAlias returns a Track Alias for a track that we publish. Aliases are not used again, so that late objects of an
// old subscription are never taken for those of a new one.
func (s *Session) newAlias() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	alias := s.nextAlias
	s.nextAlias++
	return alias
}

// Track is the track.
func (p *Publication) Track() moqt.FullTrackName { return p.track }

// Alias is the Track Alias to be used in data streams and datagrams. It is valid once the subscription is Established,
// or was offered by Publish.
func (p *Publication) Alias() uint64 { return p.alias }

// Parameters are those of the subscriber, from SUBSCRIBE or PUBLISH_OK and the updates accepted since.
func (p *Publication) Parameters() moqt.Parameters {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.parameters
}

// Forward is the Forward State: whether objects are to be sent.
func (p *Publication) Forward() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.forward
}

// Accept answers a SUBSCRIBE with SUBSCRIBE_OK. The parameters have LargestObject if objects have been published.
func (p *Publication) Accept(parameters moqt.Parameters, properties moqt.Properties) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	alias := p.s.nextAlias
	ok := &moqt.SubscribeOK{TrackAlias: alias, Parameters: parameters, Properties: properties}
	if err := p.answerLocked(ok); err != nil {
		return err
	}
	p.s.nextAlias++
	p.alias, p.properties = alias, properties
	p.joining = parameters.LargestObject
	p.established = true
	p.s.notify()
	return nil
}

// Wait waits for the response to a PUBLISH. Giving up does not cancel the request.
func (p *Publication) Wait(ctx context.Context) error { return p.wait(ctx) }

// Update sends a REQUEST_UPDATE for a PUBLISH, for example with fresh authorization tokens, and waits for the response.
// If the subscriber refuses, the publisher has to end the subscription with Done (draft §10.9.1).
func (p *Publication) Update(ctx context.Context, parameters moqt.Parameters) error {
	if p.remote {
		return fmt.Errorf("update %s: only the subscriber can update a SUBSCRIBE", p.track)
	}
	_, err := p.update(ctx, parameters, nil)
	if _, refused := errors.AsType[*moqt.RequestError](err); refused {
		p.updateFailed()
	}
	return err
}

// AddStreams counts data streams that were opened for the subscription by other means than OpenSubgroup.
func (p *Publication) AddStreams(n uint64) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.streams += n
}

// Done ends the subscription with PUBLISH_DONE. All its streams have to be closed or reset before (draft §10.11); those
// of OpenSubgroup that are not are reset. If an update was refused, the code becomes UPDATE_FAILED.
func (p *Publication) Done(code moqt.PublishDoneCode, reason string) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.over {
		return context.Cause(p.ctx)
	}
	if p.remote && !p.answered {
		return ErrUnanswered
	}
	if p.updateDenied {
		code = moqt.DoneUpdateFailed
	}
	done := moqt.PublishDone{Status: code, StreamCount: min(p.streams, moqt.UnknownStreamCount), Reason: reason}
	if err := p.out.sendLast(&done); err != nil {
		return err
	}
	p.endLocked(ErrFinished)
	return nil
}

// admit implements role.
func (p *Publication) admit() error {
	err := p.s.mayBegin(p.track, true)
	if err != nil && p.remote {
		return refuse(moqt.RequestDuplicateSubscription, "%v", err)
	}
	if err == nil {
		p.s.publications[p.track.Key()] = p
	}
	return err
}

// serve implements role.
func (p *Publication) serve(h Handler) { h.HandleSubscribe(p) }

// accepted implements role: the peer has sent PUBLISH_OK.
func (p *Publication) accepted(m moqt.Message) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.parameters = m.(*moqt.RequestOK).Parameters
	p.forward = p.parameters.ForwardState()
	p.established = true
	p.s.notify()
	return nil
}

// message implements role. Some subscribers still send UNSUBSCRIBE where the draft has STOP_SENDING.
func (p *Publication) message(m moqt.Message) error {
	if _, ok := m.(*moqt.Unsubscribe); !ok {
		return p.baseRole.message(m)
	}
	p.end(&transport.StreamError{Code: uint64(moqt.ResetCancelled), Remote: true})
	p.out.finish()
	return nil
}

// updating implements role.
func (p *Publication) updating(u *Update, response *moqt.Parameters) *moqt.RequestError {
	p.parameters.Merge(&u.Parameters)
	if u.Parameters.Forward != nil {
		// What changes the Forward State from 0 to 1 sets the Joining Location (draft §5.1).
		if *u.Parameters.Forward && !p.forward {
			p.joining = response.LargestObject
		}
		p.forward = *u.Parameters.Forward
	}
	return nil
}

// updateFailed implements role.
func (p *Publication) updateFailed() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.updateDenied = true
}

// ended implements role.
func (p *Publication) ended() {
	key := p.track.Key()
	if p.s.publications[key] == p {
		delete(p.s.publications, key)
	}
	p.s.notify()
}
