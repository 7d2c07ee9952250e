package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

const (
	pingInterval = 5 * time.Millisecond
	// pingTime is how long to wait for a reply.
	pingTime = time.Second
)

// pinger sends pings, one at a time. Its thread sleeps and waits in system calls of its own: timers and sockets of Go's
// runtime wake up to a millisecond late.
type pinger struct {
	socket int
	target unix.SockaddrInet6
	number int // of the last ping
}

// ping pings between the commands Go and Stop, and reports after each Stop, until the end of the commands.
func (g *generator) ping(ctx context.Context) error {
	p, err := newPinger(g.Ping, pingTime)
	if err != nil {
		return err
	}
	defer unix.Close(p.socket)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.out.Encode(Event{Ready: true}); err != nil {
		return err
	}
	for {
		if _, err := g.await(ctx, Go); err != nil {
			return err
		}
		done, err := g.pings(ctx, p)
		if err != nil {
			return err
		}
		if err := g.out.Encode(Event{Pinged: done}); err != nil {
			return err
		}
	}
}

// pings pings until the command Stop.
func (g *generator) pings(ctx context.Context, p *pinger) (*Pinged, error) {
	done := &Pinged{Delays: []float64{}}
	for due := Monotonic(); ; {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case command := <-g.commands:
			if command != Stop {
				return nil, fmt.Errorf("command: %q: must be %q", command, Stop)
			}
			slices.Sort(done.Delays)
			return done, nil
		default:
		}
		sleepUntil(due)
		switch err := p.ping(); {
		case err == nil:
			done.Delays = append(done.Delays, (Monotonic()-due).Seconds()*1e3)
			due += pingInterval
		case errors.Is(err, unix.EAGAIN):
			done.Lost++
			due = Monotonic()
		default:
			return nil, fmt.Errorf("ping %s: %w", g.Ping, err)
		}
	}
}

// newPinger returns a pinger with a time to wait for each reply.
func newPinger(target string, wait time.Duration) (*pinger, error) {
	address, err := net.ResolveIPAddr("ip6", target)
	if err != nil {
		return nil, err
	}
	p := new(pinger)
	copy(p.target.Addr[:], address.IP.To16())
	p.socket, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return nil, fmt.Errorf("open a socket for pings: %w", err)
	}
	limit := unix.NsecToTimeval(wait.Nanoseconds())
	if err := unix.SetsockoptTimeval(p.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return nil, errors.Join(err, unix.Close(p.socket))
	}
	return p, nil
}

// ping sends a ping and waits for its reply.
func (p *pinger) ping() error {
	p.number++
	sent := &icmp.Echo{ID: os.Getpid() & 0xffff, Seq: p.number & 0xffff, Data: []byte("bystander")}
	message, err := (&icmp.Message{Type: ipv6.ICMPTypeEchoRequest, Body: sent}).Marshal(nil)
	if err != nil {
		return err
	}
	if err := unix.Sendto(p.socket, message, 0, &p.target); err != nil {
		return err
	}
	for buf := make([]byte, 512); ; {
		n, _, err := unix.Recvfrom(p.socket, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		m, err := icmp.ParseMessage(unix.IPPROTO_ICMPV6, buf[:n])
		if err != nil || m.Type != ipv6.ICMPTypeEchoReply {
			continue
		}
		if echo, ok := m.Body.(*icmp.Echo); ok && echo.ID == sent.ID && echo.Seq == sent.Seq {
			return nil
		}
	}
}

// Monotonic returns the time on the clock of captured packets.
func Monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("no monotonic clock: %v", err))
	}
	return time.Duration(t.Nano())
}

func sleepUntil(due time.Duration) {
	until := unix.NsecToTimespec(due.Nanoseconds())
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil), unix.EINTR) {
	}
}
