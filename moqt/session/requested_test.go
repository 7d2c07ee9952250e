package session

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// requestLog keeps what Config.Requested is told.
type requestLog struct {
	mu    sync.Mutex
	asked []RequestInfo
	ends  []error
}

func (l *requestLog) requested(q RequestInfo) func(error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, q)
	return func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ends = append(l.ends, err)
	}
}

// one requires that there was one request, and that it has ended once.
func (l *requestLog) one(t require.TestingT) (RequestInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Len(t, l.asked, 1)
	require.Len(t, l.ends, 1)
	return l.asked[0], l.ends[0]
}

// TestRequested tells of requests of each type that are refused, and of those that end without an answer.
func TestRequested(t *testing.T) {
	for name, m := range allRequests(moqt.Namespace{"a"}) {
		t.Run(name, func(t *testing.T) {
			var refused, left requestLog
			play(t, setting{cfg: Config{Role: Server, Requested: refused.requested}}, func(p *script) {
				p.request(m).requireRefused(moqt.RequestNotSupported)
			})
			q, err := refused.one(t)
			require.Equal(t, m.Type(), q.Type)
			require.Equal(t, moqt.PartsOf(m).Track, q.Track)
			require.NotEmpty(t, q.Remote)
			e, ok := errors.AsType[*moqt.RequestError](err)
			require.True(t, ok, err)
			require.Equal(t, moqt.RequestNotSupported, e.Code)

			h := newHandler() // does not answer
			play(t, setting{cfg: Config{Role: Server, Handler: h, Requested: left.requested}}, func(p *script) {
				p.request(m)
				p.requireOpen()
				require.Equal(p, 1, h.asked())
			})
			_, err = left.one(t)
			require.Error(t, err)
			_, ok = errors.AsType[*moqt.RequestError](err)
			require.False(t, ok, err)
		})
	}
}
