package transporttest

import (
	"context"

	"sluice/transport"
)

// streamQueue is the streams of one type that one end has opened.
type streamQueue struct {
	firstID int64
	limit   int
	streams []*stream // in the order of their ids
	noticed int       // how many of them the peer knows of
	taken   int       // how many of them the peer has accepted
	open    int
}

func (q *streamQueue) abandon(err error) {
	for _, s := range q.streams {
		for _, h := range s.halves() {
			h.cancel(err)
		}
	}
}

// openStream opens a stream, or returns nil at the limit.
func (c *Conn) openStream(q *streamQueue) *stream {
	if q.open >= q.limit {
		return nil
	}
	q.open++
	s := &stream{id: q.firstID + 4*int64(len(q.streams)), queue: q}
	s.out = newHalf(c, s)
	if q == &c.bidi {
		s.in = newHalf(c.peer, s)
	}
	q.streams = append(q.streams, s)
	return s
}

func (c *Conn) open(ctx context.Context, q *streamQueue) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var s *stream
	err := c.wait(ctx, func() bool {
		if c.closed == nil {
			s = c.openStream(q)
		}
		return c.closed != nil || s != nil
	})
	if c.closed != nil {
		return nil, c.closed
	}
	return s, err
}

func (c *Conn) tryOpen(q *streamQueue) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return nil, c.closed
	}
	if s := c.openStream(q); s != nil {
		return s, nil
	}
	return nil, transport.ErrStreamLimit
}

func (c *Conn) accept(ctx context.Context, q *streamQueue) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.wait(ctx, func() bool { return c.closed != nil || q.taken < q.noticed && !c.paused })
	switch {
	case c.closed != nil && (closedHere(c.closed) || q.taken == q.noticed):
		return nil, c.closed
	case c.closed == nil && err != nil:
		return nil, err
	}
	s := q.streams[q.taken]
	q.taken++
	return s, nil
}

// OpenStream implements [transport.Conn].
func (c *Conn) OpenStream() (transport.Stream, error) {
	s, err := c.tryOpen(&c.bidi)
	if err != nil {
		return nil, err
	}
	return s.initiator(), nil
}

// OpenStreamSync implements [transport.Conn].
func (c *Conn) OpenStreamSync(ctx context.Context) (transport.Stream, error) {
	s, err := c.open(ctx, &c.bidi)
	if err != nil {
		return nil, err
	}
	return s.initiator(), nil
}

// OpenUniStream implements [transport.Conn].
func (c *Conn) OpenUniStream() (transport.SendStream, error) {
	s, err := c.tryOpen(&c.uni)
	if err != nil {
		return nil, err
	}
	return s.initiator(), nil
}

// OpenUniStreamSync implements [transport.Conn].
func (c *Conn) OpenUniStreamSync(ctx context.Context) (transport.SendStream, error) {
	s, err := c.open(ctx, &c.uni)
	if err != nil {
		return nil, err
	}
	return s.initiator(), nil
}

// AcceptStream implements [transport.Conn].
func (c *Conn) AcceptStream(ctx context.Context) (transport.Stream, error) {
	s, err := c.accept(ctx, &c.peer.bidi)
	if err != nil {
		return nil, err
	}
	return s.responder(), nil
}

// AcceptUniStream implements [transport.Conn].
func (c *Conn) AcceptUniStream(ctx context.Context) (transport.ReceiveStream, error) {
	s, err := c.accept(ctx, &c.peer.uni)
	if err != nil {
		return nil, err
	}
	return s.responder(), nil
}
