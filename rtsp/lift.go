package rtsp

import (
	"context"
	"sync"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/pion/rtp"
)

// lift gives the packets of a publisher to its uplink while somebody wants the MoQ broadcast. When somebody wants it
// again, the packets that the stream keeps come first, so the broadcast goes on with the last key frame, or without a
// gap.
type lift struct {
	uplink *uplink // nil: the stream is no MoQ broadcast
	share  *share  // of the pool, for all of the MoQ broadcast
	stream *stream
	times  liftTimes

	mu      sync.Mutex // held while a packet goes to the stream and to the uplink
	wanted  int        // requests for media that are open
	idle    *time.Timer
	asleep  bool
	next    uint64        // number of the first packet of the stream that came since
	resumed chan struct{} // closed when the uplink has gone on
	stamps  map[*description.Media]stamp
	closed  bool
}

// stamp is a timestamp whose time is known.
type stamp struct {
	timestamp uint32
	at        int64 // in units of its clock
}

// of returns the time of a packet that came at most 2^31 units before or after.
func (s stamp) of(p *rtp.Packet) int64 { return s.at + int64(int32(p.Timestamp-s.timestamp)) }

// resumption has the packets that an uplink takes when it goes on.
type resumption struct {
	packets []arrival
	gap     bool          // others are lost
	done    chan struct{} // closed when the uplink has gone on
}

// liftTimes are the times of a lift.
type liftTimes struct {
	linger time.Duration // how long it works after the last request; the relay keeps its subscriptions for a while, too
	// How long a request waits until the uplink goes on. After a gap, this takes a key frame. Other relays wait 5 s for
	// an answer.
	wait time.Duration
}

var defaultLiftTimes = liftTimes{linger: 3 * time.Second, wait: 4 * time.Second}

// newLift returns a lift that works until nobody has wanted the broadcast for a while.
func newLift(s *stream, u *uplink, times liftTimes) *lift {
	l := &lift{
		uplink: u, stream: s, times: times,
		resumed: make(chan struct{}), stamps: make(map[*description.Media]stamp),
	}
	close(l.resumed)
	if u != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.idle = time.AfterFunc(times.linger, l.sleep)
	}
	return l
}

// offerLocked gives a packet with a known time to the uplink, and reports whether there was room. Packets of medias
// that the broadcast does not have need none, and have no stamp: so wakeLocked leaves them out.
func (l *lift) offerLocked(m *description.Media, p *rtp.Packet, at int64) bool {
	if l.uplink == nil || l.closed || l.uplink.tracks[m] == nil {
		return true
	}
	l.stamps[m] = stamp{p.Timestamp, at}
	return l.asleep || l.uplink.offer(arrival{media: m, rtp: p, at: at})
}

// want is called for each request for media. It returns when the broadcast is up to date, so that the answer is: until
// then, the largest object that has been published may be an old one. ctx is done when the request has ended.
func (l *lift) want(ctx context.Context) {
	l.mu.Lock()
	l.wanted++
	if l.asleep && !l.closed {
		l.wakeLocked()
	}
	resumed := l.resumed
	l.mu.Unlock()
	context.AfterFunc(ctx, l.unwant)
	timer := time.NewTimer(l.times.wait)
	defer timer.Stop()
	select {
	case <-resumed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (l *lift) unwant() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted--; l.wanted == 0 && !l.closed {
		l.idle.Reset(l.times.linger)
	}
}

// wakeLocked gives the uplink the stream's cached packets. It tries again at the next request if the queue is full.
func (l *lift) wakeLocked() {
	kept, gap := l.stream.since(l.next)
	r := &resumption{gap: gap, done: make(chan struct{})}
	for _, p := range kept {
		if s, known := l.stamps[p.media.Media]; known {
			r.packets = append(r.packets, arrival{media: p.media.Media, rtp: p.rtp, at: s.of(p.rtp)})
		}
	}
	select {
	case l.uplink.queue <- arrival{resume: r}:
		l.asleep, l.resumed = false, r.done
	default:
	}
}

// sleep stops giving packets to the uplink, unless somebody wants the broadcast or the init segment is not there yet.
func (l *lift) sleep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.wanted > 0 || l.closed:
	case l.uplink.begun.Load():
		l.asleep, l.next = true, l.stream.end()
	default:
		l.idle.Reset(l.times.linger)
	}
}

// works reports whether packets become chunks now.
func (l *lift) works() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.uplink != nil && !l.asleep && !l.closed
}

// close ends the broadcast.
func (l *lift) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uplink != nil && !l.closed {
		l.idle.Stop()
		close(l.uplink.queue)
	}
	l.closed = true
}
