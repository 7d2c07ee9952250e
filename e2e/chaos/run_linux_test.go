package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"sluice/lab"
	"sluice/media"
)

// run is the lab with its relays, and one act in it.
type run struct {
	t      *testing.T
	lab    *lab.Lab
	relays []*relay
	points []*attachment

	clip     *clip
	file     string
	clients  []*client
	living   *errgroup.Group // of the clients
	rtsp     rtspPeers
	received atomic.Int64 // objects
	hostile  sync.WaitGroup

	ctx  context.Context // ends with the first failure
	stop context.CancelCauseFunc

	began  time.Time // of the schedule
	played []event
	plots  *plots

	mu    sync.Mutex
	links map[string]string // conditions, by host
	heard []omission
}

// Messages about objects that viewers may lack, or get twice.
const (
	leftOut   = "objects are left out"
	mayRepeat = "objects may come twice"
)

// omission is such a message.
type omission struct {
	at          time.Time
	relay, line string
	Peer        netip.AddrPort
	Msg         string
	Why         any // a media.Outcome's number, or text
	Objects     objects
}

// shown is how many a failure shows.
const shown = 200

// hear takes a message of a relay.
func (r *run) hear(relay, line string) {
	if strings.Contains(line, `"`+leftOut+`"`) || strings.Contains(line, `"`+mayRepeat+`"`) {
		o := omission{at: time.Now(), relay: relay, line: line}
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			r.fail(fmt.Errorf("relay %s: %s: %w", relay, line, err))
		}
		if o.Why == float64(media.Canceled) || r.isHostile(o.Peer.Addr().Unmap()) {
			return // who has left, or never was to get them
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.heard = append(r.heard, o)
		return
	}
	if err := checkMessage(line, knownMessages); err != nil {
		r.fail(fmt.Errorf("relay %s: %w", relay, err))
	}
}

// heardOf returns the objects of a broadcast that relays have told of, for honest viewers. Of these it may be any:
// their addresses change, unlike those of hostile hosts.
func (r *run) heardOf(c *client, message string) (list []objects) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.heard {
		of, here := o.Objects.Track.Namespace, o.relay == relayNames[c.relay] // the fast path does not know the track
		if o.Msg == message && (of == nil && here || of.Equal(namespace(c.relay, c.broadcast))) {
			list = append(list, o.Objects)
		}
	}
	return list
}

// isHostile reports whether an address is that of a hostile host.
func (r *run) isHostile(a netip.Addr) bool {
	return slices.ContainsFunc(hostileHosts, func(name string) bool {
		d := r.host(name).Devices[0]
		return a == d.IPv4.Addr() || a == d.IPv6.Addr()
	})
}

// forgetHeard forgets what relays have told, at the end of an act, and returns how often and why.
func (r *run) forgetHeard() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	why := make(map[string]int)
	for _, o := range r.heard {
		if n, ok := o.Why.(float64); ok {
			o.Why = media.Outcome(n)
		}
		why[fmt.Sprint(o.Why)]++
	}
	r.heard = nil
	return fmt.Sprintf("streams whose objects were left out, or may come twice: %v", why)
}

// newRun starts the relays.
func newRun(t *testing.T, l *lab.Lab) *run {
	r := &run{t: t, lab: l, links: make(map[string]string)}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	t.Cleanup(func() { r.stop(nil) })
	for i, name := range relayNames {
		cfg := relayConfig{
			title: "relay " + name, host: l.Relay, port: 4443 + i, admin: fmt.Sprintf("127.0.0.1:%d", 4480+i),
			dir: t.TempDir(),
			args: []string{
				"--fastpath", []string{"on", "off", "on"}[i], "--sockets", []string{"4", "1", "2"}[i],
			},
			message: func(line string) { r.hear(name, line) },
		}
		if i < rtspRelays {
			cfg.serveRTSP(i)
		}
		if i == replaceable {
			cfg.control = filepath.Join(cfg.dir, "control")
		}
		relay, err := startRelay(cfg)
		require.NoError(t, err)
		r.relays = append(r.relays, relay)
		if i == 0 { // before another relay attaches programs with the same names
			r.points, err = newAttachments(l.Relay)
			require.NoError(t, err)
		}
	}
	return r
}

// fail ends the run. The first failure counts.
func (r *run) fail(err error) { r.stop(err) }

func (r *run) host(name string) *lab.Host {
	h, err := r.lab.Host(name)
	if err != nil {
		panic(err) // the names are fixed
	}
	return h
}

// url returns the address of a relay for a role.
func (r *run) url(role role, relay int) string {
	device := r.lab.Relay.Facing(r.host(role.host))
	addr := device.IPv4.Addr()
	if role.ipv6 {
		addr = device.IPv6.Addr()
	}
	return fmt.Sprintf("%s://%v", role.scheme, netip.AddrPortFrom(addr, uint16(r.relays[relay].port)))
}

// tail is the media after the last event. Until its end everything that was lost has come.
const tail = 8 * time.Second

// settling is how long it may take until the schedule begins.
const settling = 30 * time.Second

// act publishes, and views, while the schedule happens. It returns when all peers have gone.
func (r *run) act(schedule []event, duration time.Duration) (err error) {
	r.began, r.played, r.clients, r.living = time.Now(), nil, nil, new(errgroup.Group)
	r.plots = newPlots(r.relays)
	defer func() {
		if err != nil {
			r.explain()
		}
	}()
	for _, step := range []func() error{
		func() error { return r.makeClip(duration + tail + settling) },
		func() error { return r.open(viewers, true) },
		r.awaitViewers,
		func() error { return r.open(publishers, false) },
		r.openRTSP,
		r.exercise,
		r.awaitGroups,
		func() error { return r.play(schedule) },
		r.calm,
		r.endRTSP,
		r.awaitClients,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) makeClip(duration time.Duration) (err error) {
	if r.clip, err = newClip(duration); err != nil {
		return err
	}
	r.file = filepath.Join(r.t.TempDir(), "clip.mp4")
	return os.WriteFile(r.file, r.clip.file, 0o600)
}

// open starts a client for each role at each relay.
func (r *run) open(roles []role, views bool) error {
	for relay := range relayNames {
		for _, role := range roles {
			c := &client{role: role, run: r, relay: relay, views: views}
			if err := c.begin(); err != nil {
				return err
			}
			r.clients = append(r.clients, c)
			r.living.Go(func() error {
				err := c.live()
				if err != nil {
					r.fail(err)
				}
				return err
			})
		}
	}
	return nil
}

// awaitViewers waits until all viewers wait for their broadcasts.
func (r *run) awaitViewers() error {
	for _, relay := range r.relays {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			h, err := relay.holds()
			if err != nil {
				return err
			}
			if h["sluice_relay_open_requests"] >= float64(2*len(viewers)) { // for two tracks
				break
			}
			if time.Now().After(deadline) {
				return errors.New("the viewers have not subscribed")
			}
		}
	}
	return nil
}

// awaitGroups waits until viewers have a group before the current one: hostile peers contradict it.
func (r *run) awaitGroups() error {
	for _, c := range r.clients {
		for deadline := time.Now().Add(settling); c.views && c.current().viewing.groups(victim(0).Name) < 2; {
			select {
			case <-r.ctx.Done():
				return context.Cause(r.ctx)
			case <-time.After(50 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				return c.current().failure("the second group has not come")
			}
		}
	}
	return nil
}

// awaitClients waits until all clients have ended, after the end of the media.
func (r *run) awaitClients() error {
	ended := make(chan error, 1)
	go func() { ended <- r.living.Wait() }()
	select {
	case err := <-ended:
		return cmp.Or(err, context.Cause(r.ctx))
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	case <-time.After(tail + time.Minute):
		return r.unfinished()
	}
}

// unfinished names the clients that do not end.
func (r *run) unfinished() error {
	var errs []error
	for _, c := range r.clients {
		c.mu.Lock()
		select {
		case <-c.life.done:
		default:
			errs = append(errs, c.life.failure("does not end"))
		}
		c.mu.Unlock()
	}
	return errors.Join(errs...)
}

// play does what the schedule says, until its end or a failure.
func (r *run) play(schedule []event) error {
	r.began = time.Now()
	for i, e := range schedule {
		select {
		case <-time.After(time.Until(r.began.Add(e.at))):
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
		r.played = schedule[:i+1]
		if err := r.do(e); err != nil {
			return fmt.Errorf("%v: %w", e, err)
		}
		if err := r.plots.note(); err != nil {
			return err
		}
	}
	return nil
}

// recent is how many events before a failure are shown.
const recent = 40

// explain logs the events before a failure, and what relays have left out.
func (r *run) explain() {
	r.t.Logf("failed after %.2fs; before that:", time.Since(r.began).Seconds())
	for _, e := range r.played[max(0, len(r.played)-recent):] {
		r.t.Log(e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.heard[max(0, len(r.heard)-shown):] {
		r.t.Logf("%.2fs: relay %s: %s", o.at.Sub(r.began).Seconds(), o.relay, o.line)
	}
}

// calm ends everything that disturbs honest peers, and lets the publishers that would go on end.
func (r *run) calm() error {
	r.hostile.Wait()
	var errs []error
	for _, p := range r.points {
		errs = append(errs, p.attach())
	}
	for _, h := range weatherHosts() {
		errs = append(errs, r.setLink(h, "clean"))
	}
	for _, relay := range r.relays {
		errs = append(errs, relay.allow(true, 0))
	}
	for _, c := range r.clients {
		c.end()
	}
	return errors.Join(errs...)
}

// do does an event. What lasts goes on in the background.
func (r *run) do(e event) error {
	relay := r.relays[e.relay]
	switch e.kind {
	case attack:
		return r.attack(e)
	case rtspAttack:
		return r.attackRTSP(e)
	case forge:
		return r.forge(e)
	case conditions:
		return r.setLink(e.host, e.link)
	case tunnel:
		return r.tunnel(e)
	case rebind:
		return r.host(e.host).Devices[0].Link.Rebind()
	case readdress:
		return r.host(e.host).Devices[0].ChangeAddress()
	case killViewer:
		r.killOne(e, true)
	case killPublisher:
		r.killOne(e, false)
	case detach:
		return r.points[e.program].detach()
	case attach:
		return r.points[e.program].attach()
	case certificate:
		return relay.renew()
	case tokens:
		return relay.allow(e.seed%2 == 0, e.seed)
	case replace:
		return r.relays[replaceable].replace()
	}
	return nil
}

// killOne kills a mortal client.
func (r *run) killOne(e event, views bool) {
	var mortal []*client
	for _, c := range r.clients {
		if c.mortal && c.views == views && c.relay == e.relay {
			mortal = append(mortal, c)
		}
	}
	mortal[e.seed%uint64(len(mortal))].kill()
}

// setLink sets the conditions of a host's link, in both directions.
func (r *run) setLink(host, conditions string) error {
	r.mu.Lock()
	r.links[host] = conditions
	r.mu.Unlock()
	return r.applyLink(host, conditions)
}

func (r *run) applyLink(host, conditions string) error {
	c, err := lab.ParseConditions(conditions)
	if err != nil {
		return err
	}
	link := r.host(host).Devices[0].Link
	return errors.Join(link.Set(lab.ToHost, c), link.Set(lab.FromHost, c))
}

// tunnel lets a link lose everything for a while.
func (r *run) tunnel(e event) error {
	if err := r.applyLink(e.host, "loss=100%"); err != nil {
		return err
	}
	r.hostile.Go(func() {
		r.sleep(e.lasts)
		r.mu.Lock()
		conditions := r.links[e.host]
		r.mu.Unlock()
		if err := r.applyLink(e.host, conditions); err != nil {
			r.fail(err)
		}
	})
	return nil
}

// sleep returns earlier after a failure.
func (r *run) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
	}
}

// forge repeats and changes the packets of a host on their way.
func (r *run) forge(e event) error {
	port := "relay-down"
	if e.host == lab.PublisherName {
		port = "relay-up"
	}
	f, err := newForger(r.lab, r.host(e.host), port, e.seed)
	if err != nil {
		return err
	}
	f.intact = e.host == publisherHost
	ctx, cancel := context.WithTimeout(r.ctx, e.lasts)
	r.hostile.Go(func() {
		defer cancel()
		defer f.close()
		f.run(ctx)
	})
	return nil
}

// exercise has the kernel of the first relay do all that the run is about. The schedule may detach the programs for
// most of its time.
func (r *run) exercise() error {
	for seed, deadline := uint64(0), time.Now().Add(time.Minute); ; seed++ {
		missing, err := r.undone()
		if err != nil || missing == "" {
			return err
		}
		if time.Now().After(deadline) || r.ctx.Err() != nil {
			return cmp.Or(context.Cause(r.ctx), fmt.Errorf("the kernel has counted no %s", missing))
		}
		for _, host := range publisherHosts {
			if err := r.forge(event{host: host, lasts: 300 * time.Millisecond, seed: seed}); err != nil {
				return err
			}
		}
		r.hostile.Wait()
	}
}

// undone returns something that the kernel of the first relay has not done, or "".
func (r *run) undone() (reason string, err error) {
	counts, err := r.relays[0].counts()
	for _, reason := range []string{"copy_sent", "packet_forged", "packet_replayed", "rtp_forwarded"} {
		if err == nil && counts[reason] == 0 {
			return reason, nil
		}
	}
	return "", err
}

// endGrace is how long an attacker may take to end on request.
const endGrace = 10 * time.Second

// attack attacks a relay from a process.
func (r *run) attack(e event) error {
	return r.attackBy(e, task{
		Attack: e.attack, URL: r.url(role{host: e.host, scheme: e.scheme}, e.relay), Token: hostileToken,
		Victim: victim(e.relay),
	})
}

// attackBy starts the process of an attack.
func (r *run) attackBy(e event, t task) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
	p, err := start(r.host(e.host), e.attack, cmd, func(string) {}, nil)
	if err != nil {
		return err
	}
	r.hostile.Go(func() {
		r.sleep(e.lasts)
		if e.kill {
			p.signal(syscall.SIGKILL)
			<-p.done
			return
		}
		p.signal(syscall.SIGTERM)
		timer := time.AfterFunc(endGrace, func() { p.signal(syscall.SIGKILL) })
		err := p.result()
		timer.Stop()
		if err != nil && p.cmd.ProcessState.ExitCode() > 0 { // -1: ended by a signal, too early or too late for it
			r.fail(fmt.Errorf("%v: %w", e, err))
		}
	})
	return nil
}
