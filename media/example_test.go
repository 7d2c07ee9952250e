package media_test

import (
	"fmt"
	"net"
	"time"

	"sluice/clock"
	"sluice/congestion"
	"sluice/media"
)

// fixedRate is a congestion controller for a path whose rate is known, as on a leased line: it sends at that rate,
// whatever is lost.
type fixedRate struct {
	bytesPerSecond int64
	minRTT         time.Duration
	mtu            int
}

func (c *fixedRate) Acked(e congestion.AckEvent) { c.minRTT = e.MinRTT }

func (c *fixedRate) Lost(congestion.LossEvent) {}

func (c *fixedRate) Spurious(clock.Time) {}

// Window is what the path holds in two round trips, so that late acknowledgments do not stop it.
func (c *fixedRate) Window() int {
	rtt := max(c.minRTT, 10*time.Millisecond)
	return max(int(float64(c.bytesPerSecond)*2*rtt.Seconds()), 10*c.mtu)
}

func (c *fixedRate) Rate(time.Duration) int64 { return c.bytesPerSecond }

func (c *fixedRate) Reset(mtu int) { c.mtu, c.minRTT = mtu, 0 }

// A congestion controller for one kind of path.
func ExampleSenderConfig_newController() {
	cfg := media.SenderConfig{
		NewController: func(mtu int) congestion.Controller {
			return &fixedRate{bytesPerSecond: 1_250_000, mtu: mtu}
		},
	}
	c := cfg.NewController(1200)
	c.Acked(congestion.AckEvent{Bytes: 1200, MinRTT: 40 * time.Millisecond})
	fmt.Println(c.Window(), c.Rate(0))
	// Output: 100000 1250000
}

// keepAbove is a drop policy that keeps subgroups of Publisher Priority 15 and better when anything waits for long,
// and the rest when nothing does.
type keepAbove struct{ delay time.Duration }

func (p keepAbove) Decide(_ clock.Time, load media.Load) media.Limits {
	for _, l := range load.Levels {
		if l.Age > p.delay+load.SRTT {
			return media.UpTo(l.Level&0xff00 | 15)
		}
	}
	return media.UpTo(media.LowestPriority)
}

// A drop policy for one kind of track. Budget and PriorityDrop come with the package.
func ExampleDropPolicy() {
	cfg := media.SenderConfig{DropPolicy: keepAbove{delay: 100 * time.Millisecond}}
	fine := []media.Backlog{{Level: 0x8010, Age: 20 * time.Millisecond}}
	late := []media.Backlog{{Level: 0x8008}, {Level: 0x8010, Bytes: 90_000, Age: 300 * time.Millisecond}}
	fmt.Printf("%#x\n", cfg.DropPolicy.Decide(0, media.Load{Levels: fine}).Threshold)
	path := congestion.State{SRTT: 20 * time.Millisecond}
	fmt.Printf("%#x\n", cfg.DropPolicy.Decide(0, media.Load{State: path, Levels: late}).Threshold)
	// Output:
	// 0xffff
	// 0x800f
}

// Where a sender comes from: NewSender makes the hooks of each connection that the listener gets.
func ExampleLoop() {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()
	loop, err := media.NewLoop(media.LoopConfig{}, socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer loop.Close()
	sender := loop.NewSender(media.SenderConfig{DropPolicy: new(media.PriorityDrop)}) // one for each connection
	fmt.Println(sender.Stats().Window)
	// Output: 0
}
