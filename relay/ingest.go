package relay

import (
	"errors"
	"io"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/track"
	"sluice/transport"
)

// HandleSubgroup implements session.Receiver.
func (u *upstream) HandleSubgroup(g *session.Subgroup) {
	<-u.ready
	from := &arriving{conn: u.peer.forwarder, id: g.ID(), header: g.Header, start: g.Offset()}
	priority := u.priority(g.Subscription, g.Header.DefaultPriority, g.Header.Priority)
	defer u.hub.fast.Receive(from.conn, from.id, from.header, priority, from.start)()
	src := u.hub.track().NewSource(track.SourceConfig{
		Header:   g.Header,
		Priority: priority,
		Start:    from.start,
		Cancel:   func() { g.CancelRead(uint64(moqt.ResetCancelled)) },
		Owner:    from,
	})
	counted := countingReader{g, u}
	err := src.Read(counted)
	for err == nil {
		err = src.Read(counted)
	}
	u.subgroupEnded(g, src, err)
}

func (u *upstream) subgroupEnded(g *session.Subgroup, src *track.Source, err error) {
	code := uint64(moqt.ResetCancelled)
	reset, isReset := errors.AsType[*transport.StreamError](err)
	switch violation, isViolation := errors.AsType[*moqt.ProtocolError](err); {
	case errors.Is(err, io.EOF):
	case isReset && reset.Remote:
		code = reset.Code
	case isViolation:
		u.peer.session.Close(violation.Code, violation.Reason)
	case errors.Is(err, moqt.ErrPropertiesTooLong), errors.Is(err, track.ErrHeaderTooLarge), errors.Is(err, track.ErrTooFarAhead):
		g.CancelRead(uint64(moqt.ResetExcessiveLoad))
	default:
		u.checkMalformed(err)
	}
	u.checkMalformed(src.Close(code))
}

func (u *upstream) checkMalformed(err error) {
	if malformed, ok := errors.AsType[*moqt.MalformedTrackError](err); ok {
		u.hub.malformed(u, malformed)
	}
}

// HandleDatagram implements session.Receiver.
func (u *upstream) HandleDatagram(o *moqt.ObjectDatagram) {
	<-u.ready
	u.hub.relay.metrics.datagrams.Inc()
	u.received(len(o.Payload))
	d := &track.Datagram{
		Group: o.Location.Group, ID: o.Location.Object, Priority: u.priority(u.sub, o.DefaultPriority, o.Priority),
		Status: o.Status, EndOfGroup: o.EndOfGroup, Properties: o.Properties, Payload: o.Payload, Received: time.Now(),
	}
	forward, err := u.hub.track().AddDatagram(d)
	u.checkMalformed(err)
	if forward {
		u.hub.sendDatagram(d)
	}
}

// priority is the Publisher Priority of a subgroup or datagram (draft §7.1).
func (u *upstream) priority(sub *session.Subscription, isDefault bool, p uint8) uint8 {
	if isDefault {
		return sub.Properties().DefaultPublisherPriority()
	}
	return p
}

// countingReader takes note of what is received.
type countingReader struct {
	r io.Reader
	u *upstream
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.u.received(n)
	return n, err
}

func (u *upstream) received(bytes int) {
	u.hub.relay.metrics.bytes.Add(float64(bytes))
	u.active.Store(time.Now().UnixNano())
}
