package trial

import (
	"context"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sluice/lab/sim"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// linger is how long a session is kept after its publication has ended, so that everything arrives.
const linger = 5 * time.Second

// publisher publishes groups. It moves when the relay asks it to, as package pub does: it publishes in another session
// from the beginning of the group on that is the current one then, and ends the publication before with that group, or
// with the next one.
type publisher struct {
	service     *service
	spec        Client
	media       *Media
	relay, host int
	current     []*publication // that get the current group, the newest last
	next        uint64         // group; constant when the publisher is over

	mu      sync.Mutex
	moved   []*publication // that have got nothing yet
	largest *moqt.Location // that was published
	over    bool           // another publisher goes on
	done    bool           // all was published
}

// publisher has somebody publish behind an object, or from the beginning on.
func (s *service) publisher(relay int, c Client, m *Media, largest *moqt.Location) *publisher {
	p := &publisher{service: s, spec: c, media: m, relay: relay, host: s.host(relay, c)}
	first, err := p.open(largest)
	s.check(err)
	p.current = []*publication{first}
	return p
}

// open opens a session, and publishes there behind the largest object so far.
func (p *publisher) open(largest *moqt.Location) (o *publication, err error) {
	s := p.service
	err = whileAsked(func() error {
		c, err := s.join(p.host, p.relay, p.spec)
		if err != nil {
			return err
		}
		properties, err := p.media.Timeouts.properties()
		s.check(err)
		pub, err := c.Publish(s.t.Context(), moqt.Publish{
			Track: p.media.track(), Parameters: moqt.Parameters{LargestObject: largest}, Properties: properties,
		})
		if err == nil {
			err = pub.Wait(s.t.Context())
		}
		if err != nil {
			defer c.leave()
			return c.movedBy(err)
		}
		o = &publication{client: c, pub: pub, media: p.media, subgroups: make(map[uint64]*subgroup)}
		o.first = math.MaxUint64
		if largest != nil {
			o.first = largest.Group
		}
		return nil
	})
	if err == nil {
		go p.follow(o)
	}
	return o, err
}

// follow moves when the relay asks the publisher to.
func (p *publisher) follow(from *publication) {
	if _, asked := from.isAsked(); !asked {
		return
	}
	p.mu.Lock()
	largest, left := p.largest, p.over
	p.mu.Unlock()
	if left {
		time.Sleep(linger)
		from.leave()
		return
	}
	p.service.note("the publisher moves")
	next, err := p.open(largest)
	p.service.check(err)
	p.mu.Lock()
	over, done := p.over, p.done
	if !over && !done {
		p.moved = append(p.moved, next)
	}
	p.mu.Unlock()
	if over || done {
		p.service.check(next.catchUp(p.service.t.Context(), p.next, 0))
	}
	if over {
		p.service.check(next.end())
	}
}

// finish ends the media. A publication to which the publisher moves from now on gets what it lacks at once.
func (p *publisher) finish() {
	p.begin(p.next, 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
}

// begin has the sessions to which the publisher has moved get the current group, whose first objects were published,
// and what they lack before it.
func (p *publisher) begin(group, objects uint64) {
	p.mu.Lock()
	moved := p.moved
	p.moved = nil
	if objects > 0 {
		p.largest = &moqt.Location{Group: group, Object: objects - 1}
	}
	p.mu.Unlock()
	for _, o := range moved {
		p.service.check(o.catchUp(p.service.t.Context(), group, objects))
	}
	p.current = append(p.current, moved...)
}

// group publishes a group, with a pause behind each object. It says which object is next.
func (p *publisher) group(group uint64, next func(moqt.Location)) {
	p.objects(group, 0, p.media.Objects, next)
	p.endGroup(group)
}

// objects publishes the objects of a group from one on, and before another one.
func (p *publisher) objects(group, first, end uint64, next func(moqt.Location)) {
	for object := first; object < end; object++ {
		next(moqt.Location{Group: group, Object: object})
		p.begin(group, object)
		for _, o := range p.current {
			p.service.check(o.send(p.service.t.Context(), moqt.Location{Group: group, Object: object}))
		}
		time.Sleep(p.media.Pause)
	}
}

// endGroup ends a group. The sessions that the publisher has moved from end with it.
func (p *publisher) endGroup(group uint64) {
	for i, o := range p.current {
		p.service.check(o.endGroup())
		if i < len(p.current)-1 {
			p.service.check(o.end())
			time.AfterFunc(linger, o.leave)
		}
	}
	p.current, p.next = p.current[len(p.current)-1:], group+1
}

// end ends the publication, so that another publisher goes on. The sessions stay until everything has arrived, and
// that of a hasty publisher no longer.
func (p *publisher) end() {
	p.begin(p.next, 0)
	p.mu.Lock()
	p.over = true
	all := append(p.current, p.moved...)
	p.mu.Unlock()
	for _, o := range all {
		p.service.check(o.end())
		if p.spec.Hasty {
			o.sent.await()
			o.leave()
		}
	}
}

// tear sends the beginning of an object. The relay's kernel sees the packet, but its socket has no room for it.
func (p *publisher) tear(at moqt.Location) {
	s, o := p.service, p.current[0]
	stream := o.subgroups[p.media.subgroup(at)]
	if stream == nil || p.media.isDatagram(at) {
		return
	}
	b, err := stream.encode(at.Object, p.media.payload(at), o.properties())
	s.check(err)
	relay := s.process(p.relay)
	relay.conn.Overflow(sim.Host(p.host))
	_, err = stream.stream.Write(b[:len(b)/2])
	s.check(err)
	time.Sleep(p.spec.Link.Delay + time.Millisecond)
	relay.conn.Overflow(netip.Addr{})
}

// arrive waits until the relay has all objects that the publisher has sent.
func (p *publisher) arrive() {
	if p.spec.Hasty {
		p.current[0].sent.await()
	} else {
		time.Sleep(arrives)
	}
}

// publication is what a publisher publishes in one session.
type publication struct {
	*client
	pub       *session.Publication
	media     *Media
	first     uint64               // group, at most, if the publisher has moved here
	begins    uint64               // with this object of the first group, if another publisher has brought those before
	subgroups map[uint64]*subgroup // of the current group
}

// catchUp sends what was published before an object of a group.
func (o *publication) catchUp(ctx context.Context, group, object uint64) (err error) {
	end := moqt.Location{Group: group, Object: object}
	for at := (moqt.Location{Group: min(o.first, group)}); err == nil && at.Less(end); {
		err = o.send(ctx, at)
		if at.Object++; err == nil && at.Object == o.media.Objects {
			at = moqt.Location{Group: at.Group + 1}
			err = o.endGroup()
		}
	}
	return err
}

// send sends an object of the current group.
func (o *publication) send(ctx context.Context, at moqt.Location) error {
	m := o.media
	if m.isDatagram(at) {
		return o.pub.SendDatagram(moqt.ObjectDatagram{
			Location: m.wire(at), EndOfGroup: m.isLast(at), Payload: m.payload(at),
		})
	}
	id := m.subgroup(at)
	if o.subgroups[id] == nil {
		var err error
		if o.subgroups[id], err = o.open(ctx, at.Group, id); err != nil {
			return err
		}
	}
	b, err := o.subgroups[id].encode(at.Object, m.payload(at), o.properties())
	if err == nil {
		_, err = o.subgroups[id].stream.Write(b)
	}
	return err
}

// open opens the stream of a subgroup.
func (o *publication) open(ctx context.Context, group, id uint64) (*subgroup, error) {
	m := o.media
	last := moqt.Location{Group: group, Object: m.Objects - 1}
	h := moqt.SubgroupHeader{
		GroupID: m.groupID(group), SubgroupID: id, FirstObject: o.begins == 0,
		EndOfGroup: !m.isDatagram(last) && m.subgroup(last) == id, HasProperties: m.areTorn(),
	}
	if m.Layers {
		h.Priority = uint8(100 + id)
	}
	if id != 0 {
		h.SubgroupIDMode = moqt.SubgroupIDPresent
	}
	stream, err := o.pub.OpenSubgroup(ctx, h)
	return &subgroup{stream, moqt.NewSubgroupEncoder(o.Version().DataLayout(), h)}, err
}

// properties returns the properties of objects: none, or one that only this publication has.
func (o *publication) properties() moqt.Properties {
	if !o.media.areTorn() {
		return nil
	}
	value := uint64(1)
	if o.first < math.MaxUint64 {
		value = 1 << 20
	}
	p, err := moqt.NewProperties(moqt.KeyValuePair{Type: 0x70, Value: value})
	if err != nil {
		panic(err)
	}
	return p
}

// endGroup ends the streams of the current group.
func (o *publication) endGroup() error {
	for _, id := range slices.Sorted(maps.Keys(o.subgroups)) {
		if err := o.subgroups[id].stream.Close(); err != nil {
			return err
		}
	}
	clear(o.subgroups)
	o.begins = 0
	return nil
}

// end ends the publication. The session goes on.
func (o *publication) end() error { return o.pub.Done(moqt.DoneGoingAway, "") }

// subgroup is a stream of a publisher.
type subgroup struct {
	stream  transport.SendStream
	encoder moqt.SubgroupEncoder
}

func (s *subgroup) encode(object uint64, payload []byte, p moqt.Properties) ([]byte, error) {
	h := moqt.ObjectHeader{ObjectID: object, Properties: p, PayloadLength: uint64(len(payload))}
	b, err := s.encoder.AppendObject(nil, h)
	return append(b, payload...), err
}
