package rtsp

import (
	"sync"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/stretchr/testify/require"

	"sluice/fastpath"
	"sluice/internal/rtpframe"
)

// stuckWorker is a kernel one of whose workers has not made its copies yet. It serves nobody.
type stuckWorker struct {
	frames  rtpframe.Frames
	once    sync.Once
	awaited chan struct{} // closed when somebody waits for the worker
	goesOn  chan struct{} // closed when the worker has made its copies
}

func (k *stuckWorker) Await() {
	k.once.Do(func() { close(k.awaited) })
	<-k.goesOn
}

func (*stuckWorker) Take(fastpath.RTPPacket) (served fastpath.RTPServed) { return served }

func (k *stuckWorker) Frames(f func(*rtpframe.Frames)) bool { f(&k.frames); return true }

func (*stuckWorker) Pause(bool) {}

func (*stuckWorker) Join(fastpath.RTPPath, *rtpframe.Flow) *fastpath.RTPPlayer { return nil }

func (*stuckWorker) Close() {}

// TestStuckWorker has a packet of a media wait for a worker of the kernel. Meanwhile a player joins and gets what has
// come before, and requests for the MoQ broadcast are answered.
func TestStuckWorker(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pub := publishTo(t, s, "/live/cam", gortsplib.ProtocolTCP)
	pub.frames(1)
	pub.received(s, 2)
	st := s.all()[0]
	k := &stuckWorker{awaited: make(chan struct{}), goesOn: make(chan struct{})}
	goOn := sync.OnceFunc(func() { close(k.goesOn) })
	defer goOn()
	st.lend(st.lead.Media, k)
	pub.frames(1)
	select {
	case <-k.awaited:
	case <-time.After(patient):
		t.Fatal("nobody waits for the worker")
	}
	player := play(t, s, "/live/cam", gortsplib.ProtocolTCP)
	player.expects(1, 1)
	asked := make(chan bool, 1)
	go func() { asked <- st.publisher.lift.works() }()
	select {
	case works := <-asked:
		require.False(t, works, "there is no relay for it")
	case <-time.After(patient):
		t.Fatal("the lift waits, too")
	}
	require.EqualValues(t, 2, counted(t, s, "received_packets_total"), "the packet waits")
	goOn()
	player.expects(1, 2)
}
