package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/lab"
	"sluice/internal/lab/labtest"
)

// TestTree runs seven relays as a tree and does what a schedule says to the nodes that have no publisher. Viewers at
// the edges get groups from their beginning, without holes, and lose ends of groups, and groups, only when something
// happens to a node. Objects that come twice are counted, and not judged: when a relay changes to another upstream
// relay, the kernel may forward from one of them what has come from the other.
func TestTree(t *testing.T) {
	if os.Getenv("CHAOS") == "" {
		t.Skip("CHAOS is not set; make chaos-tree sets it")
	}
	duration, err := time.ParseDuration(os.Getenv("CHAOS"))
	require.NoError(t, err, "CHAOS must be a duration such as 2m")
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	require.NoError(t, err, "SEED must be a number")
	fmt.Printf("chaos in a tree for %v with seed %d\n", duration, seed)
	kernel, err := openKernelLog()
	require.NoError(t, err)
	defer kernel.close()

	hosts := treeViewers + 1 // for the publisher at an edge
	r := newTree(t, labtest.New(t, lab.Topology{Relays: nodes, Subscribers: hosts, Seed: seed}))
	schedule, edge := newTreeSchedule(seed, duration)
	require.NoError(t, r.run(schedule, edge, duration), "seed %d", seed)
	require.NoError(t, kernel.check(), "seed %d", seed)
}

// treeViewers is the number of viewers, each in a host of its own: two at each edge, over raw QUIC and over
// WebTransport.
const treeViewers = 2 * (nodes - firstEdge)

// tree is the lab with its nodes.
type tree struct {
	t       *testing.T
	lab     *lab.Lab
	nodes   []*relay
	clip    *clip
	viewers []*treeViewer

	ctx    context.Context // ends with the first failure
	stop   context.CancelCauseFunc
	played []treeEvent
	begin  time.Time // of the schedule
}

// treeViewer is a viewer at an edge. When its edge has ended, another process follows.
type treeViewer struct {
	tree      *tree
	name      string
	host      *lab.Host
	url       string
	broadcast string

	mu    sync.Mutex
	lives []*life
	last  bool // the latest one has seen the end
}

func newTree(t *testing.T, l *lab.Lab) *tree {
	r := &tree{t: t, lab: l}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	t.Cleanup(func() { r.stop(nil) })
	for i, host := range l.Relays {
		args := []string{"--fastpath", "on"}
		for _, u := range upstreamsOf(i) {
			url := fmt.Sprintf("moqt://[%v]:4443", l.Relays[u].Facing(host).IPv6.Addr())
			args = append(args, "--upstream", url)
		}
		if i != origin {
			args = append(args, "--upstream-announce", "/", "--upstream-tls-disable-verify")
		}
		node, err := startRelay(relayConfig{
			title: fmt.Sprintf("node %d", i), host: host, port: 4443, admin: "127.0.0.1:4480", dir: t.TempDir(),
			args: args,
			message: func(line string) {
				if err := checkMessage(line, slices.Concat(knownMessages, knownOfTree)); err != nil {
					r.stop(fmt.Errorf("node %d: %w", i, err))
				}
			},
		})
		require.NoError(t, err)
		r.nodes = append(r.nodes, node)
	}
	return r
}

// knownOfTree are messages that only relays with an upstream relay may log.
var knownOfTree = []string{
	"connected to the upstream relay", "the session with the upstream relay has ended",
	"no session with the upstream relay", "the upstream relay is going away",
}

// run publishes, and views, while the schedule happens. It returns when the clip has ended.
func (r *tree) run(schedule []treeEvent, edge int, duration time.Duration) (err error) {
	defer func() {
		if err != nil {
			r.explain()
		}
	}()
	if r.clip, err = newClip(duration); err != nil {
		return err
	}
	for i := range treeViewers {
		if err := r.view(i); err != nil {
			return err
		}
	}
	for node, host := range map[int]*lab.Host{origin: r.lab.Publisher, edge: r.lab.Subscribers[treeViewers]} {
		if err := r.publish(node, host); err != nil {
			return err
		}
	}
	if err := r.play(schedule); err != nil {
		return err
	}
	if err := r.await(duration); err != nil {
		return err
	}
	return errors.Join(r.judge(), r.checkFastPath())
}

// Broadcasts, by the node with their publisher.
var treeBroadcasts = []string{"origin", "edge"}

// clientCommand returns a command that publishes or subscribes at a node.
func clientCommand(broadcast string, args ...string) *exec.Cmd {
	cmd := exec.Command("sluice", append(args, "--tls-disable-verify", "--namespace", "chaos/"+broadcast)...)
	cmd.Env = append(os.Environ(), "SLUICE_AUTH_TOKEN="+honestToken)
	return cmd
}

// urlOf returns the URL of a node for a host.
func (r *tree) urlOf(node int, host *lab.Host, scheme string) string {
	return fmt.Sprintf("%s://[%v]:4443", scheme, r.lab.Relays[node].Facing(host).IPv6.Addr())
}

func (r *tree) publish(node int, host *lab.Host) error {
	file := filepath.Join(r.t.TempDir(), "clip.mp4")
	if err := os.WriteFile(file, r.clip.file, 0o600); err != nil {
		return err
	}
	broadcast := treeBroadcasts[min(node, 1)]
	cmd := clientCommand(broadcast, "pub", "--wait", "--relay", r.urlOf(node, host, "moqt"), file)
	_, err := start(host, "publisher of "+broadcast, cmd, func(string) {}, nil)
	return err
}

// view starts the i-th viewer. Of two at an edge, one is of each broadcast.
func (r *tree) view(i int) error {
	edge, scheme, broadcast := firstEdge+i/2, []string{"moqt", "https"}[i%2], treeBroadcasts[(i+i/2)%2]
	host := r.lab.Subscribers[i]
	v := &treeViewer{
		tree: r, name: fmt.Sprintf("viewer of %s at node %d, by %s", broadcast, edge, scheme), host: host,
		url: r.urlOf(edge, host, scheme), broadcast: broadcast,
	}
	r.viewers = append(r.viewers, v)
	if err := v.begin(); err != nil {
		return err
	}
	go v.live()
	return nil
}

// begin starts another life.
func (v *treeViewer) begin() error {
	l := &life{viewing: newViewing(v.tree.clip)}
	l.viewing.forgiving = true
	cmd := clientCommand(v.broadcast, "sub", "--raw", "--tracks", "1.m4s,2.m4s", "--wait", "1m", "--reconnect", "0",
		"--relay", v.url)
	var err error
	l.process, err = start(v.host, v.name, cmd, func(line string) {
		if err := l.viewing.take(line); err != nil {
			v.tree.stop(fmt.Errorf("%s: %w", v.name, err))
		}
	}, nil)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lives = append(v.lives, l)
	return nil
}

// live begins another life when one has ended before the clip.
func (v *treeViewer) live() {
	for v.tree.ctx.Err() == nil {
		v.mu.Lock()
		l := v.lives[len(v.lives)-1]
		v.mu.Unlock()
		if l.result() == nil {
			v.mu.Lock()
			v.last = true
			v.mu.Unlock()
			return
		}
		time.Sleep(100 * time.Millisecond) // the node may be away for a while
		if err := v.begin(); err != nil {
			v.tree.stop(err)
		}
	}
}

// play does what the schedule says.
func (r *tree) play(schedule []treeEvent) error {
	r.begin = time.Now()
	var back sync.WaitGroup
	defer back.Wait()
	for i, e := range schedule {
		select {
		case <-time.After(time.Until(r.begin.Add(e.at))):
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
		r.played = schedule[:i+1]
		back.Wait() // no mishap begins before the node of the last one is back
		if err := r.do(e, &back); err != nil {
			return fmt.Errorf("%v: %w", e, err)
		}
	}
	return nil
}

// do does an event. What ends a mishap happens in the background.
func (r *tree) do(e treeEvent, back *sync.WaitGroup) error {
	node := r.nodes[e.node]
	link := r.lab.Relays[e.node].Device("up").Link
	set := func(text string) error {
		c, err := lab.ParseConditions(text)
		return errors.Join(err, link.Set(lab.ToHost, c), link.Set(lab.FromHost, c))
	}
	end := func() error { return set("clean") }
	switch e.what {
	case weathered:
		return set(e.link)
	case cut:
		if err := set("loss=100%"); err != nil {
			return err
		}
	case killed:
		node.signal(syscall.SIGKILL)
		<-node.done
		end = node.begin
	case drained:
		node.signal(syscall.SIGTERM)
		end = func() error { return errors.Join(node.result(), node.begin()) }
	}
	back.Go(func() {
		time.Sleep(e.lasts)
		if err := end(); err != nil {
			r.stop(fmt.Errorf("%v: %w", e, err))
		}
	})
	return nil
}

// await waits until all viewers have seen the end.
func (r *tree) await(duration time.Duration) error {
	for deadline := r.begin.Add(duration + time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if err := context.Cause(r.ctx); err != nil {
			return err
		}
		var errs []error
		for _, v := range r.viewers {
			v.mu.Lock()
			if !v.last {
				errs = append(errs, v.lives[len(v.lives)-1].failure("does not end"))
			}
			v.mu.Unlock()
		}
		if len(errs) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(errs...)
		}
	}
}

// recovery is how long after the end of a mishap media may be lost.
const recovery = 4 * time.Second

// judge compares what the viewers have received with what was published.
func (r *tree) judge() error {
	began := make(map[string]time.Time)
	for _, v := range r.viewers {
		for _, l := range v.lives {
			at, earliest := l.viewing.began, began[v.broadcast]
			if !at.IsZero() && (earliest.IsZero() || at.Before(earliest)) {
				began[v.broadcast] = at
			}
		}
	}
	var excused spans
	for _, e := range r.played {
		if e.what != weathered {
			at := r.begin.Add(e.at)
			excused = append(excused, span{at.Add(-time.Second), at.Add(e.lasts + recovery)})
		}
	}
	var errs []error
	objects, repeated := 0, 0
	for _, v := range r.viewers {
		for i, l := range v.lives {
			objects += l.viewing.count()
			repeated += l.viewing.repeated
			if err := l.viewing.judge(began[v.broadcast], excused, i == len(v.lives)-1); err != nil {
				errs = append(errs, fmt.Errorf("%s, life %d: %w", v.name, i, err))
			}
		}
	}
	sent := 0
	for _, n := range r.clip.counts {
		sent += n * len(r.viewers)
	}
	r.t.Logf("%d events; %d objects arrived of %d, %d twice; %s", len(r.played), objects, sent, repeated,
		strings.Join(r.lives(), ", "))
	return errors.Join(errs...)
}

// checkFastPath checks that the kernel of each node has forwarded, to other nodes or to viewers.
func (r *tree) checkFastPath() error {
	for _, n := range r.nodes {
		counts, err := n.counts()
		if err != nil {
			return err
		}
		if counts["copy_sent"] == 0 {
			return n.failure(fmt.Sprint("the kernel has forwarded nothing: ", counts))
		}
	}
	return nil
}

// explain logs the events before a failure.
func (r *tree) explain() {
	r.t.Logf("failed after %.2fs; %s; before that:", time.Since(r.begin).Seconds(), strings.Join(r.lives(), ", "))
	for _, e := range r.played[max(0, len(r.played)-recent):] {
		r.t.Log(e)
	}
	for _, n := range r.nodes {
		r.t.Log(n.failure("its last messages"))
	}
}

// lives returns how many lives each viewer has had.
func (r *tree) lives() (all []string) {
	for _, v := range r.viewers {
		v.mu.Lock()
		all = append(all, fmt.Sprintf("%s: %d lives", v.name, len(v.lives)))
		v.mu.Unlock()
	}
	return all
}
