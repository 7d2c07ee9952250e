// Command relay is an example of a relay of your own: Sluice with another congestion controller, another drop policy
// and another choice of what the kernel forwards. It makes a certificate for tests; clients of Sluice connect with
// --tls-disable-verify.
//
//	make third_party && cd examples/relay && go run .
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"os/signal"
	"syscall"
	"time"

	"sluice/clock"
	"sluice/congestion"
	"sluice/media"
	"sluice/moqt"
	"sluice/server"
	"sluice/transport"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, ":4443", func(s *server.Server) { log.Print("listening on ", s.Addr()) }); err != nil {
		log.Fatal(err)
	}
}

// run relays until the context is done. It calls started when connections are accepted.
func run(ctx context.Context, listen string, started func(*server.Server)) error {
	cfg := server.Config{
		Listen: listen,
		// Both are made for each connection, which calls them with its own lock held: they need no lock.
		NewController: func(mtu int) congestion.Controller {
			return &capped{Controller: congestion.NewCubic(mtu)}
		},
		NewDropPolicy: func() media.DropPolicy { return urgentOnly{} },
	}
	cfg.Relay.FastPathPolicy = liveOnly{}
	cert, _, err := transport.DevCertificate()
	if err != nil {
		return err
	}
	cfg.Transport.Certificate = &cert
	s, err := server.Listen(cfg)
	if err != nil {
		return err
	}
	started(s)
	return errors.Join(s.Serve(ctx), s.Drain("", 5*time.Second))
}

const (
	maxRate = 2_500_000 // to one subscriber, in bytes per second
	burst   = 64 << 10  // room in the window for a key frame, also on paths of a few milliseconds
)

// capped is a congestion controller: CUBIC, but no subscriber gets more than maxRate. It paces packets at that rate
// and bounds the window by what the path holds at that rate.
type capped struct {
	congestion.Controller
	srtt time.Duration
}

func (c *capped) Rate(srtt time.Duration) int64 {
	c.srtt = srtt
	return min(cmp.Or(c.Controller.Rate(srtt), maxRate), maxRate) // 0: CUBIC does not pace
}

func (c *capped) Window() int {
	return min(c.Controller.Window(), burst+int(maxRate*c.srtt.Seconds()))
}

// urgentOnly is a drop policy: while anything has waited for half a second, only the most urgent level is sent.
type urgentOnly struct{}

func (urgentOnly) Decide(_ clock.Time, load media.Load) media.Limits {
	for _, l := range load.Levels {
		if l.Age > 500*time.Millisecond {
			return media.UpTo(load.Levels[0].Level)
		}
	}
	return media.UpTo(media.LowestPriority) // everything is sent
}

// liveOnly is a fast-path policy: the kernel forwards tracks in namespaces that start with "live", to at most 8
// subscribers each. User space serves everybody else.
type liveOnly struct{}

func (liveOnly) Subscribers(track moqt.FullTrackName, subscribers int) int {
	if len(track.Namespace) == 0 || track.Namespace[0] != "live" {
		return 0
	}
	return min(subscribers, 8)
}
