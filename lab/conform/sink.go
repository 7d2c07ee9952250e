package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"sluice/moqt"
	"sluice/moqt/session"
)

// sink is a subscription and what has come.
type sink struct {
	*session.Subscription
	c       *client
	objects chan object
	headers chan moqt.SubgroupHeader // of streams, when their first bytes come
	ends    chan string              // of streams: "fin" or "reset"
	fills   chan []object
}

func newSink(c *client) *sink {
	return &sink{
		c: c, objects: make(chan object, 1000), headers: make(chan moqt.SubgroupHeader, 100),
		ends: make(chan string, 100), fills: make(chan []object, 1),
	}
}

// HandleSubgroup implements [session.Receiver].
func (k *sink) HandleSubgroup(g *session.Subgroup) {
	k.headers <- g.Header
	buffer, whole := make([]byte, 64<<10), []byte(nil)
	for seen := 0; ; {
		n, err := g.Read(buffer)
		whole = append(whole, buffer[:n]...)
		found := k.parse(g.Header, whole)
		for _, o := range found[seen:] {
			k.objects <- o
		}
		seen = len(found)
		if err != nil {
			k.ends <- map[bool]string{true: "fin", false: "reset"}[errors.Is(err, io.EOF)]
			return
		}
	}
}

// parse returns the whole objects in the bytes behind a header.
func (k *sink) parse(h moqt.SubgroupHeader, b []byte) (objects []object) {
	p := moqt.NewSubgroupParser(k.c.Version().DataLayout(), h, 0)
	for rest := b; ; {
		o, n, err := p.Next(rest)
		if err != nil || o.End > int64(len(b)) {
			return objects
		}
		rest = rest[n:]
		if h.SubgroupIDMode == moqt.SubgroupIDFirstObject && len(objects) == 0 {
			h.SubgroupID = o.ObjectID
		}
		objects = append(objects, object{
			Location: moqt.Location{Group: h.GroupID, Object: o.ObjectID}, Subgroup: h.SubgroupID,
			Priority: h.Priority, Status: o.Status, Properties: string(o.Properties),
			Payload: string(b[o.PayloadStart:o.End]),
		})
	}
}

// HandleDatagram implements [session.Receiver].
func (k *sink) HandleDatagram(o *moqt.ObjectDatagram) {
	k.objects <- object{
		Location: o.Location, Priority: o.Priority, Status: o.Status, Datagram: true, Properties: string(o.Properties),
		Payload: string(o.Payload),
	}
}

// HandleFill implements [session.FillReceiver].
func (k *sink) HandleFill(f *session.Fill) {
	b, err := io.ReadAll(f)
	if objects, parsing := parseFetch(k.c.Version(), moqt.Ascending, b); errors.Join(err, parsing) == nil {
		k.fills <- objects
	}
}

// wants waits for as many objects as are named, in any order, and compares their names and payloads.
func (k *sink) wants(names ...string) []object {
	var got []object
	for range names {
		select {
		case o := <-k.objects:
			got = append(got, o)
		case <-k.c.t.ctx.Done():
			k.c.t.fail(fmt.Sprintf("the objects %v", names), "%v", got)
		}
	}
	slices.SortFunc(got, func(a, b object) int { return a.Compare(b.Location) })
	equal(k.c.t, "objects", fmt.Sprint(names), fmt.Sprint(got))
	for _, o := range got {
		if o.Status == moqt.StatusNormal && o.Payload != o.String() {
			k.c.t.fail("the payload of object "+o.String(), "%q", o.Payload)
		}
	}
	return got
}

// done waits for PUBLISH_DONE.
func (k *sink) done() *session.DoneError {
	select {
	case <-k.Context().Done():
	case <-k.c.t.ctx.Done():
		k.c.t.fail("PUBLISH_DONE", "")
	}
	done, ok := errors.AsType[*session.DoneError](context.Cause(k.Context()))
	if !ok {
		k.c.t.fail("PUBLISH_DONE", "%v", context.Cause(k.Context()))
	}
	return done
}
