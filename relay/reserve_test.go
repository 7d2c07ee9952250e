package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
)

// forwarded returns the renditions whose objects the publisher is to send.
func (l *ladder) forwarded() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[string]bool{}
	for name, p := range l.of {
		if p.Context().Err() == nil && p.Forward() {
			names[name] = true
		}
	}
	return names
}

var (
	both     = map[string]bool{"high": true, "low": true}
	onlyHigh = map[string]bool{"high": true}
	onlyLow  = map[string]bool{"low": true}
)

// A publisher sends the renditions that somebody gets, here or at a relay that follows, and no others. A change brings
// each group once and whole all the same.
func TestRenditionsInReserve(t *testing.T) {
	for name, relays := range map[string]int{"one relay": 1, "the second relay": 2} {
		t.Run(name, func(t *testing.T) {
			onChain(t, relays, func(bs []*bench) {
				l := bs[0].connect().serveLadder()
				l.c.announce("live")
				last := bs[relays-1]
				subscriber := last.connect()
				subscriber.setState(widePath)
				k := &sink{}
				high := subscriber.rendition(k, "high", 1, 5_000_000, true)
				last.subscribed(high)
				low := subscriber.rendition(k, "low", 1, 1_000_000, false)
				last.subscribed(low)
				synctest.Wait()
				asked := l.of["low"].Parameters()
				require.False(t, asked.ForwardState(), "in SUBSCRIBE")
				go l.run(60)
				time.Sleep(5500 * time.Millisecond)
				require.Equal(t, onlyHigh, l.forwarded())

				narrow := widePath
				narrow.Lag = 2 * time.Second
				subscriber.setState(narrow)
				last.awaitChange()
				require.Equal(t, both, l.forwarded(), "before the change")
				time.Sleep(7 * time.Second) // a group, and Config.Linger at each relay
				require.Equal(t, onlyLow, l.forwarded())
				other, err := last.connect().subscribeTo("high")
				require.NoError(t, err)
				synctest.Wait()
				require.Equal(t, both, l.forwarded(), "for another subscriber")
				other.Cancel(moqt.ResetCancelled)
				time.Sleep(7 * time.Second)
				require.Equal(t, onlyLow, l.forwarded())
				subscriber.setState(widePath)
				time.Sleep(25 * time.Second)
				synctest.Wait()
				require.Equal(t, onlyHigh, l.forwarded())
				require.Equal(t, []string{"high", "low", "high"}, k.checkGroups(t))
				high.Cancel(moqt.ResetCancelled)
				low.Cancel(moqt.ResetCancelled)
			})
		})
	}
}

// A publisher that ends a subscription when its Forward State changes is asked for that once.
func TestUnpausablePublisher(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		publisher := b.connect()
		var asked []bool
		updates := 0
		publisher.handler.subscribe = func(p *session.Publication) {
			params := p.Parameters()
			asked = append(asked, params.ForwardState())
			if p.Accept(moqt.Parameters{}, nil) != nil {
				return
			}
			for {
				select {
				case <-p.Context().Done():
					return
				case u := <-p.Updates():
					updates++
					_ = u.Reject(&moqt.RequestError{Code: moqt.RequestNotSupported})
				}
			}
		}
		publisher.announce("live")
		sub := b.connect().rendition(&sink{}, "low", 1, 1, false)
		b.subscribed(sub)
		viewer, err := b.connect().subscribeTo("low")
		require.NoError(t, err)
		viewer.Cancel(moqt.ResetCancelled)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []bool{false, true}, asked)
		require.Equal(t, 1, updates)
		require.NoError(t, sub.Context().Err())
	})
}

// A publisher that ends a subscription for another reason, while its Forward State is changed, is paused as before.
func TestPausablePublisher(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(p *session.Publication)
		want bool // the next subscription has Forward 1
	}{
		"track ended": {func(p *session.Publication) { _ = p.Done(moqt.DoneTrackEnded, "") }, false},
		"failed":      {func(p *session.Publication) { _ = p.Done(moqt.DoneInternalError, "") }, true},
		"reset":       {func(p *session.Publication) { p.Cancel(moqt.ResetInternalError) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				publisher := b.connect()
				var asked []bool
				publisher.handler.subscribe = func(p *session.Publication) {
					params := p.Parameters()
					asked = append(asked, params.ForwardState())
					if p.Accept(moqt.Parameters{}, nil) != nil {
						return
					}
					select {
					case <-p.Context().Done():
					case <-p.Updates():
						tt.end(p)
					}
				}
				publisher.announce("live")
				c := b.connect()
				b.subscribed(c.rendition(&sink{}, "low", 1, 1, false))
				// This changes the Forward State, and is refused if the track has ended.
				_, _ = b.connect().subscribeTo("low")
				time.Sleep(10 * time.Second)
				b.subscribed(c.rendition(&sink{}, "other", 2, 1, false))
				synctest.Wait()
				require.False(t, asked[0])
				require.Equal(t, tt.want, asked[len(asked)-1])
			})
		})
	}
}
