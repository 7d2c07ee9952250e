package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bluenviron/gortsplib/v5/pkg/base"

	"sluice/lab/hostile"
	"sluice/rtsp/rtspwire"
)

// rtspRole is what an honest client of RTSP does at each of the relays.
type rtspRole struct {
	broadcast string // name
	host      string
	udp       bool
}

// Broadcasts of RTSP, by how they come to the relay. The kernel sends the packets of udpBroadcast to players by UDP.
const (
	tcpBroadcast = "rtsp-tcp"
	udpBroadcast = "rtsp-udp"
)

var (
	rtspPublishers = []rtspRole{
		{broadcast: tcpBroadcast, host: tcpHost},
		{broadcast: udpBroadcast, host: publisherHost, udp: true},
	}
	rtspPlayers = []rtspRole{
		{broadcast: tcpBroadcast, host: tcpHost},
		{broadcast: tcpBroadcast, host: playerHost, udp: true},
		{broadcast: udpBroadcast, host: tcpHost},
		{broadcast: udpBroadcast, host: playerHost, udp: true},
	}
)

// rtspPeers are the honest clients of RTSP of an act.
type rtspPeers struct{ publishers, players []*process }

// rtspPath is the path of a broadcast.
func rtspPath(relay int, broadcast string) string {
	return strings.Join(namespace(relay, broadcast), "/")
}

// rtspAddress is the address of a relay for clients of RTSP.
func (r *run) rtspAddress(relay int, host string) string { return r.atPort(r.relays[relay].rtsp, host) }

// atPort is the address of the relays' host for a host.
func (r *run) atPort(port int, host string) string {
	device := r.lab.Relay.Facing(r.host(host))
	return netip.AddrPortFrom(device.IPv4.Addr(), uint16(port)).String()
}

// openRTSP starts the clients of RTSP, and waits until their media flows.
func (r *run) openRTSP() (err error) {
	r.rtsp = rtspPeers{}
	if r.rtsp.publishers, err = r.startRTSP(rtspPublishers, true); err != nil {
		return err
	}
	if r.rtsp.players, err = r.startRTSP(rtspPlayers, false); err != nil {
		return err
	}
	return r.describe()
}

// describe asks each relay by RTSP for a broadcast of MoQ. In the first act, too, the relay then opens a session with
// itself, and what that leaves.
func (r *run) describe() error {
	for relay := range rtspRelays {
		for deadline := time.Now().Add(time.Minute); ; r.sleep(50 * time.Millisecond) {
			err := r.host(playerHost).Do(func() error { return r.describeAt(relay, deadline) })
			if err == nil {
				break
			}
			var refused *rtspwire.StatusError
			unknown := errors.As(err, &refused) && refused.Code == base.StatusNotFound // its publisher only starts
			if !unknown || time.Now().After(deadline) || r.ctx.Err() != nil {
				return fmt.Errorf("RTSP at %s: %w", relayNames[relay], err)
			}
		}
	}
	return nil
}

// describeAt asks a relay once.
func (r *run) describeAt(relay int, deadline time.Time) error {
	path := rtspPath(relay, "quic")
	c, err := rtspwire.Dial(r.ctx, nil, r.rtspAddress(relay, playerHost), path, honestToken, false)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(r.ctx, func() { _ = c.Close() })()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	_, err = c.Do("DESCRIBE", c.URL(), "")
	return err
}

func (r *run) startRTSP(roles []rtspRole, publishes bool) (all []*process, err error) {
	var flowing sync.WaitGroup
	for relay := range rtspRelays {
		for _, role := range roles {
			flowing.Add(1)
			p, err := r.startRTSPClient(relay, role, publishes, sync.OnceFunc(flowing.Done))
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	flows := make(chan struct{})
	go func() {
		flowing.Wait()
		close(flows)
	}()
	select {
	case <-flows:
		return all, nil
	case <-r.ctx.Done():
		return nil, context.Cause(r.ctx)
	case <-time.After(time.Minute):
	}
	var names []string
	for _, p := range all {
		names = append(names, p.failure("").Error())
	}
	return nil, fmt.Errorf("some of these have no media:\n%s", strings.Join(names, "\n"))
}

func (r *run) startRTSPClient(relay int, role rtspRole, publishes bool, flows func()) (*process, error) {
	text, err := json.Marshal(rtspTask{
		Publishes: publishes, UDP: role.udp, Lossy: role.broadcast == udpBroadcast,
		Address: r.rtspAddress(relay, role.host), Path: rtspPath(relay, role.broadcast),
	})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), rtspVariable+"="+string(text))
	name := fmt.Sprintf("RTSP client of %s at %s, publishes %t, by UDP %t", role.broadcast, relayNames[relay],
		publishes, role.udp)
	p, err := start(r.host(role.host), name, cmd, func(line string) {
		if line == ready {
			flows()
		} else {
			r.t.Logf("%s: %s", name, line)
		}
	}, nil)
	if err == nil {
		go func() {
			if err := p.result(); err != nil {
				r.fail(err)
			}
		}()
	}
	return p, err
}

// endRTSP has the publishers send their last packets until all players have them, and end then.
func (r *run) endRTSP() error {
	for _, p := range r.rtsp.publishers {
		p.signal(syscall.SIGTERM)
	}
	if err := r.awaitRTSP(r.rtsp.players); err != nil {
		return err
	}
	for _, p := range r.rtsp.publishers {
		p.signal(syscall.SIGTERM)
	}
	return r.awaitRTSP(r.rtsp.publishers)
}

// awaitRTSP waits until clients have ended, without an error.
func (r *run) awaitRTSP(all []*process) error {
	deadline := time.After(time.Minute)
	for _, p := range all {
		select {
		case <-p.done:
		case <-deadline:
			return p.failure("does not end")
		}
		if err := p.result(); err != nil {
			return err
		}
	}
	return nil
}

// attackRTSP attacks a relay by RTSP from a process.
func (r *run) attackRTSP(e event) error {
	c := &hostile.RTSPClient{
		Address: r.rtspAddress(e.relay, e.host), Token: hostileToken, Victim: rtspPath(e.relay, tcpBroadcast),
		MoQ: rtspPath(e.relay, "quic"),
	}
	if e.scheme == "rtsps" {
		c.Secure, c.Address = true, r.atPort(r.relays[e.relay].rtsps, e.host)
	}
	return r.attackBy(e, task{Attack: e.attack, RTSP: c})
}
