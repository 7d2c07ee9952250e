package hub

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"sluice/claim"
	"sluice/fastpath"
	"sluice/internal/unlucky"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/charge"
	"sluice/track"
	"sluice/transport"
)

// receiver puts the objects of an upstream into the hub's track. It implements session.Receiver.
type receiver struct{ upstream *upstream }

// HandleSubgroup implements session.Receiver.
func (r *receiver) HandleSubgroup(g *session.Subgroup) {
	u := r.upstream
	<-u.ready
	from := &arriving{conn: u.peer.Forwarder, id: g.ID(), header: g.Header, start: g.Offset()}
	stream := unlucky.Reader(countingReader{g, r})
	if layout := u.peer.Session.Version().DataLayout(); layout != moqt.DataLayout1 {
		from.conn = nil // the log will not have the stream's bytes
		stream = moqt.TranslateSubgroup(stream, layout, moqt.DataLayout1, g.Header)
	}
	stream = u.newcomer.look(g.Header.GroupID, stream)
	priority := publisherPriority(g.Subscription, g.Header.DefaultPriority, g.Header.Priority)
	defer u.hub.fast.track.Receive(from.conn, from.id, from.header, priority, from.start)()
	src := u.hub.track().NewSource(track.SourceConfig{
		Header:    g.Header,
		Priority:  priority,
		Start:     from.start,
		Timeouts:  u.peer.Session.Version().HasObjectTimeouts(),
		Cancel:    func() { g.CancelRead(uint64(moqt.ResetCancelled)) },
		Overtaken: r.overtaken(g),
		Received:  u.peer.lastReceived,
		Owner:     from,
	})
	err := src.Read(stream)
	for err == nil {
		err = src.Read(stream)
	}
	r.subgroupEnded(g, src, err)
}

func (r *receiver) subgroupEnded(g *session.Subgroup, src *track.Source, err error) {
	code := uint64(moqt.ResetCancelled)
	reset, isReset := errors.AsType[*transport.StreamError](err)
	_, isMalformed := errors.AsType[*moqt.MalformedTrackError](err)
	switch violation, isViolation := errors.AsType[*moqt.ProtocolError](err); {
	case errors.Is(err, io.EOF):
	case isReset && r.endsSubgroup(reset):
		code = reset.Code
	case isViolation:
		r.upstream.peer.Session.Close(violation.Code, violation.Reason)
	case errors.Is(err, moqt.ErrPropertiesTooLong), errors.Is(err, track.ErrHeaderTooLarge),
		errors.Is(err, track.ErrTooFarAhead), errors.Is(err, track.ErrTooManyStreams):
		g.CancelRead(uint64(moqt.ResetExcessiveLoad))
		r.upstream.hub.directory.Counters.Excessive.Inc()
	case isMalformed:
		r.reportMalformed(err)
	default:
		r.reportMalformed(src.Cut())
	}
	r.reportMalformed(src.Close(code)) // if it has not ended yet
}

// endsSubgroup reports whether a reset says that the publisher leaves out the rest of the subgroup, or that its objects
// are wrong. Otherwise another stream may go on: this relay has cancelled the stream for one that brings the subgroup,
// too, or another relay has because it has lost its publisher.
func (r *receiver) endsSubgroup(e *transport.StreamError) bool {
	if e.Code == uint64(moqt.ResetCancelled) {
		return e.Remote && r.upstream.peer.From == Here
	}
	return e.Remote || e.Code == uint64(moqt.ResetMalformedTrack)
}

// HandleDatagram implements session.Receiver.
func (r *receiver) HandleDatagram(o *moqt.ObjectDatagram) {
	u := r.upstream
	<-u.ready
	u.newcomer.decide(o.Location)
	if !u.peer.Hidden {
		u.hub.directory.Counters.Datagrams.Inc()
	}
	r.count(len(o.Payload))
	if u.peer.Payers().Refuse(charge.UploadRate) {
		u.hub.limit(u)
		return
	}
	d := &track.Datagram{
		Group: o.Location.Group, ID: o.Location.Object,
		Priority: publisherPriority(u.sub, o.DefaultPriority, o.Priority),
		Status:   o.Status, EndOfGroup: o.EndOfGroup, Properties: o.Properties, Payload: o.Payload,
		Received: time.Now(),
	}
	forward, err := u.hub.track().AddDatagram(d)
	r.reportMalformed(err)
	if forward {
		u.hub.sendDatagram(d)
	}
}

func (r *receiver) reportMalformed(err error) {
	if malformed, ok := errors.AsType[*moqt.MalformedTrackError](err); ok {
		r.upstream.hub.malformed(r.upstream, malformed)
	}
}

// publisherPriority returns the Publisher Priority of a subgroup or datagram (draft §7.1).
func publisherPriority(sub *session.Subscription, isDefault bool, p uint8) uint8 {
	if isDefault {
		return sub.Properties().DefaultPublisherPriority()
	}
	return p
}

// count counts received bytes, and charges the publisher for them.
func (r *receiver) count(bytes int) {
	r.measure(bytes)
	if !r.upstream.peer.Hidden {
		r.upstream.peer.Payers().Count(charge.UploadRate, bytes)
	}
}

// measure counts received bytes.
func (r *receiver) measure(bytes int) {
	metrics := r.upstream.hub.directory.Counters
	r.upstream.hub.received.Add(uint64(bytes))
	if r.upstream.peer.Hidden {
		metrics.LinkBytes.Add(float64(bytes))
	} else {
		metrics.Received.Add(uint64(bytes))
	}
}

// overtaken returns what SourceConfig.Overtaken is for a stream: it cancels the stream, which pauses while another
// publisher's stream brings more of the same subgroup, if its publisher is gone. If the publisher is there, its objects
// stand, however slowly they come: otherwise another one could take over a subgroup that pauses.
func (r *receiver) overtaken(stream *session.Subgroup) func() {
	u, probing := r.upstream, new(atomic.Bool)
	return func() {
		if probing.Swap(true) {
			return
		}
		u.hub.directory.Tasks.Go(func() {
			defer probing.Store(false)
			ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
			defer cancel()
			if !u.isThere(ctx) {
				stream.CancelRead(uint64(moqt.ResetCancelled))
			}
		})
	}
}

// countingReader counts the bytes that are read. If the publisher has exceeded its quota, it waits before it reads on,
// so that flow control slows the publisher down.
type countingReader struct {
	io.Reader
	receiver *receiver
}

func (c countingReader) Read(p []byte) (int, error) {
	publisher := c.receiver.upstream.peer
	publisher.Payers().Await(publisher.Session.Context(), charge.UploadRate)
	n, err := c.Reader.Read(p)
	c.receiver.count(n)
	return n, err
}

// arriving is the owner of the segments whose log is a publisher's stream.
type arriving struct {
	conn   claim.ForwarderConn // nil: the fast path does not serve the publisher
	id     int64
	header moqt.SubgroupHeader
	start  int64 // offset of the first byte after the header
}

// publisherStream describes the publisher's stream to the media sender of a subscriber, if the fast path serves both.
func (a *arriving) publisherStream(seg *track.Segment, d *downstream) *claim.PublisherStream {
	if a == nil || a.conn == nil || d.peer.Forwarder == nil {
		return nil
	}
	h := fastpath.Forwarded(a.header, seg.Subgroup, seg.Priority)
	h.TrackAlias = d.pub.Alias()
	prefix := moqt.AppendSubgroupHeader(slices.Clone(d.peer.Conn.StreamPrefix()), d.peer.Session.Version(), h)
	return &claim.PublisherStream{
		Conn: a.conn, StreamID: a.id, Prefix: prefix, Start: a.start, TrackAlias: h.TrackAlias,
	}
}

// goOn is publisherStream for a stream that a log goes on with.
func (a *arriving) goOn(seg *track.Segment, d *downstream) *claim.PublisherStream {
	from := a.publisherStream(seg, d)
	if from != nil {
		d.hub.fast.announce(seg, a)
	}
	return from
}
