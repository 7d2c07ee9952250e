package relay

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport/transporttest"
)

// journal takes the events of a relay: "first_subscriber 2 video" is of session 2.
type journal struct {
	mu     sync.Mutex
	got    []string
	events []Event
}

func (j *journal) add(e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := fmt.Sprint(e.Type, " ", e.Session)
	if e.Track != nil {
		text += " " + e.Track.Name
	}
	j.got, j.events = append(j.got, text), append(j.events, e)
}

// take waits until nothing moves any more, and returns what has come since the last call.
func (j *journal) take() string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	got := strings.Join(j.got, ", ")
	j.got = nil
	return got
}

func TestEvents(t *testing.T) {
	var j journal
	onBench(t, Config{OnEvent: j.add, Grace: time.Second}, func(b *bench) {
		pub := b.connect(func(cfg *session.Config) { cfg.Path = "/?token=secret" })
		pub.offers(nil)
		require.Equal(t, "session_start 1, publish_start 1 video", j.take())
		_, first := b.connect().mustSubscribe(moqt.Parameters{})
		require.Equal(t, "session_start 2, first_subscriber 2 video", j.take())
		_, second := b.connect().mustSubscribe(moqt.Parameters{})
		require.Equal(t, "session_start 3", j.take())
		first.Cancel(moqt.ResetCancelled)
		require.Empty(t, j.take())
		second.Cancel(moqt.ResetCancelled)
		require.Equal(t, "last_subscriber 3 video", j.take())
		pub.Close(moqt.SessionNoError, "")
		require.Equal(t, "publish_stop 1 video, session_end 1", sorted(j.take()))
		require.Equal(t, video, *j.events[1].Track)
		require.Equal(t, []string{"relay", "/", "quic"},
			[]string{j.events[0].Authority, j.events[0].Path, j.events[0].Transport})
		require.Equal(t, time.Now(), j.events[len(j.events)-1].Time)
	})
}

// sorted orders the events of an ended session, which come from several goroutines.
func sorted(events string) string {
	before, after, _ := strings.Cut(events, ", ")
	if before > after {
		before, after = after, before
	}
	return before + ", " + after
}

func TestRefusedRequestsAreNoEvents(t *testing.T) {
	var j journal
	deny := &rules{}
	deny.refuseWith(moqt.RequestUnauthorized)
	onBench(t, Config{OnEvent: j.add, Authorizer: deny}, func(b *bench) {
		c := b.connect()
		_, _, err := c.subscribe(moqt.Parameters{})
		b.refused(err, moqt.RequestUnauthorized)
		_, err = (&source{}).offer(c, moqt.Parameters{})
		b.refused(err, moqt.RequestUnauthorized)
		require.Equal(t, "session_start 1", j.take())
		conn, server := transporttest.Pipe(transporttest.PipeConfig{})
		go b.relay.Serve(b.ctx, server)
		synctest.Wait()
		require.NoError(t, conn.CloseWithError(0, ""))
		require.Empty(t, j.take(), "it did not send SETUP")
	})
}
