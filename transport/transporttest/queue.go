package transporttest

import (
	"context"

	"sluice/transport"
)

// streams are those that one end has opened.
type streams struct{ bidi, uni streamQueue }

// OpenStream implements [transport.Conn].
func (s *streams) OpenStream() (transport.Stream, error) { return s.bidi.tryOpen() }

// OpenStreamSync implements [transport.Conn].
func (s *streams) OpenStreamSync(ctx context.Context) (transport.Stream, error) {
	return s.bidi.open(ctx)
}

// OpenUniStream implements [transport.Conn].
func (s *streams) OpenUniStream() (transport.SendStream, error) { return s.uni.tryOpen() }

// OpenUniStreamSync implements [transport.Conn].
func (s *streams) OpenUniStreamSync(ctx context.Context) (transport.SendStream, error) {
	return s.uni.open(ctx)
}

// AcceptStream implements [transport.Conn].
func (s *streams) AcceptStream(ctx context.Context) (transport.Stream, error) {
	return s.bidi.conn.peer.bidi.accept(ctx)
}

// AcceptUniStream implements [transport.Conn].
func (s *streams) AcceptUniStream(ctx context.Context) (transport.ReceiveStream, error) {
	return s.uni.conn.peer.uni.accept(ctx)
}

// streamQueue is the streams of one type that one end has opened.
type streamQueue struct {
	conn    *Conn // that end
	firstID int64
	limit   int
	streams []*stream // in the order of their ids
	noticed int       // how many of them the peer knows of
	taken   int       // how many of them the peer has accepted
	used    int       // how many have not ended
}

func (q *streamQueue) abandon(err error) {
	for _, s := range q.streams {
		for _, h := range s.halves() {
			h.cancel(err)
		}
	}
}

// add opens a stream, or returns nil at the limit.
func (q *streamQueue) add() *stream {
	if q.used >= q.limit {
		return nil
	}
	q.used++
	s := &stream{id: q.firstID + 4*int64(len(q.streams)), queue: q}
	s.out = newHalf(q.conn, s)
	if q == &q.conn.bidi {
		s.in = newHalf(q.conn.peer, s)
	}
	q.streams = append(q.streams, s)
	return s
}

func (q *streamQueue) open(ctx context.Context) (transport.Stream, error) {
	c := q.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	var s *stream
	err := c.wait(ctx, func() bool {
		if c.closed == nil {
			s = q.add()
		}
		return c.closed != nil || s != nil
	})
	switch {
	case c.closed != nil:
		return nil, c.closed
	case err != nil:
		return nil, err
	}
	return s.initiator(), nil
}

func (q *streamQueue) tryOpen() (transport.Stream, error) {
	q.conn.mu.Lock()
	defer q.conn.mu.Unlock()
	if q.conn.closed != nil {
		return nil, q.conn.closed
	}
	if s := q.add(); s != nil {
		return s.initiator(), nil
	}
	return nil, transport.ErrStreamLimit
}

// accept returns the next stream to the other end.
func (q *streamQueue) accept(ctx context.Context) (transport.Stream, error) {
	c := q.conn.peer
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
	return s.responder(), nil
}
