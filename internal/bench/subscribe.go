package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/moqt"
	"sluice/moqt/session"
)

// ReceiveResult is what one session received.
type ReceiveResult struct {
	Objects    uint64    `json:"objects"` // complete, intact and new
	Bytes      uint64    `json:"bytes"`
	Corrupt    uint64    `json:"corrupt"` // objects with another content than was published there
	Duplicates uint64    `json:"duplicates"`
	Arrivals   []Arrival `json:"arrivals,omitempty"` // of LoadConfig.Record
}

// Arrival is an object that came in. Times are Unix, ns.
type Arrival struct {
	Group     uint64 `json:"g"`
	Object    uint64 `json:"o"`
	Published int64  `json:"p"`
	Arrived   int64  `json:"a"`
	Bytes     int    `json:"b"`
}

const (
	// parallelSessions are set up at a time.
	parallelSessions = 8
	// stragglers is how long to wait for objects when no more are published.
	stragglers = 3 * time.Second
	// readBuffer is the memory of a stream that is being read.
	readBuffer = 32 << 10
)

// subscribe runs the sessions, and reports when they have received as many objects as the command stop says.
func (g *generator) subscribe(ctx context.Context) error {
	receivers := make([]*receiver, g.Sessions)
	connections := make([]*connection, g.Sessions)
	defer func() {
		var all sync.WaitGroup
		for _, c := range connections {
			if c != nil {
				all.Go(c.close)
			}
		}
		all.Wait()
	}()
	var group errgroup.Group
	group.SetLimit(parallelSessions)
	for i := range receivers {
		receivers[i] = &receiver{media: g.media, record: g.Record && i == 0, seen: make(map[moqt.Location]bool)}
		group.Go(func() (err error) {
			connections[i], err = g.join(ctx, receivers[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := g.out.Encode(LoadEvent{Ready: true}); err != nil {
		return err
	}
	return g.report(ctx, receivers)
}

// join opens a session and subscribes.
func (g *generator) join(ctx context.Context, r *receiver) (*connection, error) {
	c, err := g.connect(ctx, nil)
	if err != nil {
		return nil, err
	}
	s, err := c.Subscribe(ctx, moqt.Subscribe{Track: g.name(), Parameters: moqt.Parameters{
		Filter: &moqt.Filter{Type: moqt.FilterLargestObject}, RendezvousTimeout: new(uint64(loadSetUp.Milliseconds())),
	}}, r)
	if err == nil {
		_, err = s.Wait(ctx)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return c, nil
}

func (g *generator) report(ctx context.Context, receivers []*receiver) error {
	argument, err := g.await(ctx, commandStop)
	if err != nil {
		return err
	}
	expected, err := strconv.ParseUint(argument, 10, 64)
	if err != nil {
		return fmt.Errorf("command %s: %w", commandStop, err)
	}
	deadline := time.Now().Add(stragglers)
	results := make([]ReceiveResult, len(receivers))
	for _, r := range receivers {
		for r.result().Objects < expected && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for i, r := range receivers {
		results[i] = r.result()
	}
	return g.out.Encode(LoadEvent{Received: results})
}

// receiver takes, verifies and counts the objects of one subscription.
type receiver struct {
	media  media
	record bool

	mu   sync.Mutex
	seen map[moqt.Location]bool
	got  ReceiveResult
}

func (r *receiver) result() ReceiveResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

// HandleDatagram implements [session.Receiver].
func (r *receiver) HandleDatagram(*moqt.ObjectDatagram) {}

var readBuffers = sync.Pool{New: func() any { return new([readBuffer]byte) }}

// HandleSubgroup implements [session.Receiver].
func (r *receiver) HandleSubgroup(g *session.Subgroup) {
	buf := readBuffers.Get().(*[readBuffer]byte)
	defer readBuffers.Put(buf)
	s := subgroupReader{parser: moqt.NewSubgroupParser(g.Header, 0), group: g.Header.GroupID, object: r.take}
	for {
		n, err := g.Read(buf[:])
		if s.read(buf[:n]) != nil {
			g.CancelRead(uint64(moqt.ResetInternalError)) // it is not as it should be: the objects will be missing
			return
		}
		if err != nil {
			return
		}
	}
}

// take counts an object.
func (r *receiver) take(at moqt.Location, d *digest) {
	arrived := time.Now()
	published, err := r.media.verify(at, d)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.got.Corrupt++
		return
	case r.seen[at]:
		r.got.Duplicates++
		return
	}
	r.seen[at] = true
	r.got.Objects++
	r.got.Bytes += uint64(d.size)
	if r.record {
		r.got.Arrivals = append(r.got.Arrivals, Arrival{at.Group, at.Object, published.UnixNano(), arrived.UnixNano(), d.size})
	}
}

// subgroupReader finds the objects of a subgroup and digests their payloads, without a copy.
type subgroupReader struct {
	parser  *moqt.SubgroupParser
	group   uint64
	object  func(moqt.Location, *digest)
	current moqt.Location
	digest  digest
	missing uint64 // bytes of the current object
	within  bool
}

// read takes the next bytes of the stream.
func (s *subgroupReader) read(b []byte) error {
	for len(b) > 0 {
		o, n, err := s.parser.Next(b)
		if err != nil && !errors.Is(err, moqt.ErrIncomplete) {
			return err
		}
		s.payload(b[:n])
		b = b[n:]
		if err == nil {
			s.current, s.digest, s.missing, s.within = moqt.Location{Group: s.group, Object: o.ObjectID}, digest{}, o.PayloadLength, o.PayloadLength > 0
		}
	}
	return nil
}

// payload digests what b, up to the end of a header, has of the current object.
func (s *subgroupReader) payload(b []byte) {
	if !s.within {
		return
	}
	b = b[:min(uint64(len(b)), s.missing)]
	s.digest.write(b)
	if s.missing -= uint64(len(b)); s.missing == 0 {
		s.within = false
		s.object(s.current, &s.digest)
	}
}
