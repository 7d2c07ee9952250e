package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/certtest"
	"sluice/internal/lab"
	"sluice/internal/lab/labtest"
)

// TestTree runs seven relays that feed each other, and does to them what a plan says. Viewers get groups from their
// beginning, without holes, and each object once. They lose ends of groups, and groups, only when something happens to
// a node that may cost them.
func TestTree(t *testing.T) {
	if os.Getenv("CHAOS") == "" {
		t.Skip("CHAOS is not set; make chaos-tree sets it")
	}
	duration, err := time.ParseDuration(os.Getenv("CHAOS"))
	require.NoError(t, err, "CHAOS must be a duration such as 2m")
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	require.NoError(t, err, "SEED must be a number")
	plan := newTreePlan(seed, duration)
	fmt.Printf("chaos in a tree by %s for %v with seed %d\n", plan.name, duration, seed)
	kernel, err := openKernelLog()
	require.NoError(t, err)
	defer kernel.close()

	hosts := treeViewers + 1 // for the second publisher
	if plan.servers {
		hosts += natsServers
	}
	r := newTree(t, plan, labtest.New(t, lab.Topology{Relays: nodes, Subscribers: hosts, Seed: seed}))
	require.NoError(t, r.run(seed, duration), "seed %d", seed)
	require.NoError(t, kernel.check(), "seed %d", seed)
}

// tree is the lab with its nodes.
type tree struct {
	treePlan
	t          *testing.T
	lab        *lab.Lab
	nodes      []*relay
	nats       []*natsServer
	clip       *clip
	publishers []*guest // by broadcast
	viewers    []*treeViewer

	ctx    context.Context // ends with the first failure
	stop   context.CancelCauseFunc
	played []treeEvent
	begin  time.Time // of the schedule
}

func newTree(t *testing.T, plan treePlan, l *lab.Lab) *tree {
	r := &tree{treePlan: plan, t: t, lab: l}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	t.Cleanup(func() { r.stop(nil) })
	var files certtest.Files
	if r.mesh {
		files = r.certify()
	}
	if r.servers {
		require.NoError(t, r.startNATS(files))
	}
	dir := t.TempDir()
	for i, host := range l.Relays {
		cfg := relayConfig{
			title: fmt.Sprintf("node %d", i), host: host, port: 4443, admin: "127.0.0.1:4480", dir: dir,
			args: []string{"--fastpath", "on", "--control", filepath.Join(dir, fmt.Sprint("control", i)),
				"--replace-drain", "5s"},
			message: func(line string) {
				err := checkMessage(line, slices.Concat(knownMessages, knownOfTree))
				for _, never := range []string{"permissions violation", "malformed track"} {
					if strings.Contains(line, never) {
						err = fmt.Errorf("a message that nobody has earned: %s", line)
					}
				}
				if err != nil {
					r.stop(fmt.Errorf("node %d: %w", i, err))
				}
			},
		}
		if r.mesh {
			cfg.args = append(cfg.args, r.clusterFlags(i, files)...)
			require.NoError(t, addAnycast(host))
		} else {
			cfg.args = append(cfg.args, r.upstreamFlags(i)...)
		}
		node, err := startRelay(cfg)
		require.NoError(t, err)
		r.nodes = append(r.nodes, node)
	}
	return r
}

// upstreamFlags returns the flags by which a node knows its upstream relays.
func (r *tree) upstreamFlags(node int) (args []string) {
	if node == origin {
		return nil
	}
	for _, u := range upstreamsOf(node) {
		args = append(args, "--upstream", r.urlOf(u, r.lab.Relays[node], "moqt"))
	}
	return append(args, "--upstream-announce", "/", "--upstream-tls-disable-verify")
}

// clusterFlags returns the flags that make a relay a node.
func (r *tree) clusterFlags(node int, files certtest.Files) []string {
	own := r.upOf(node)
	args := []string{
		"--node", nodeName(node), "--region", regionOf(node), "--cluster-name", natsCluster,
		"--cluster-advertise", fmt.Sprint("moqt://", netip.AddrPortFrom(own, 4443)),
		"--cluster-ca", files.CA, "--cluster-cert", files.Cert, "--cluster-key", files.Key,
		"--drain-uri", fmt.Sprint("moqt://", netip.AddrPortFrom(refuge, 4443)),
	}
	if r.servers {
		for _, s := range r.nats {
			args = append(args, "--cluster-url", fmt.Sprint("tls://", netip.AddrPortFrom(s.task.Address, natsPort)))
		}
		return args
	}
	args = append(args, "--cluster", "--cluster-listen", netip.AddrPortFrom(own, natsRoutePort).String())
	for other := range 2 {
		if other != node {
			args = append(args, "--cluster-join", netip.AddrPortFrom(r.upOf(other), natsRoutePort).String())
		}
	}
	return args
}

// upOf returns the address at which other nodes reach a node.
func (r *tree) upOf(node int) netip.Addr { return r.lab.Relays[node].Device("up").IPv4.Addr() }

func nodeName(node int) string { return fmt.Sprint("n", node) }

// certify returns a certificate for all nodes, and all NATS servers.
func (r *tree) certify() certtest.Files {
	var addresses []net.IP
	for i := range nodes {
		addresses = append(addresses, r.upOf(i).AsSlice())
	}
	for _, h := range r.lab.Subscribers[treeViewers+1:] {
		addresses = append(addresses, h.Devices[0].IPv4.Addr().AsSlice())
	}
	return certtest.New(r.t).Issue(r.t, addresses...)
}

// knownOfTree are messages that only relays with upstream relays, or in a cluster, may log.
var knownOfTree = []string{
	"connected to the upstream relay", "the session with the upstream relay has ended",
	"no session with the upstream relay", "the upstream relay is going away",
	"another process", "programs of another relay are attached", "linked with another process", "no link with another",
	"the link with another process",
	"joined the cluster", "a node has joined the cluster", "a node has left the cluster",
	"a node of the cluster is dead", "the relay is not in the cluster yet",
	"the NATS server is away", "the NATS server is there again", "NATS reports an error", "NATS: ",
	"no NATS server answers",
	"invalid message in the cluster", "a node of the cluster is ignored", // of hostile nodes
}

// run publishes, and views, while the schedule happens. It returns when the clip has ended.
func (r *tree) run(seed uint64, duration time.Duration) (err error) {
	defer func() {
		if err != nil {
			r.explain()
		}
	}()
	if r.clip, err = newClip(duration); err != nil {
		return err
	}
	for i := range treeViewers {
		if err := r.view(i, seed); err != nil {
			return err
		}
	}
	for b, host := range []*lab.Host{r.lab.Publisher, r.lab.Subscribers[treeViewers]} {
		if err := r.publish(b, host); err != nil {
			return err
		}
	}
	if err := r.play(); err != nil {
		return err
	}
	if err := r.await(duration); err != nil {
		return err
	}
	return errors.Join(r.judge(), r.checkFastPath())
}

func nameOf(broadcast int) string { return fmt.Sprint("broadcast", broadcast) }

// urlOf returns the URL of a node for a host.
func (r *tree) urlOf(node int, host *lab.Host, scheme string) string {
	return fmt.Sprintf("%s://[%v]:4443", scheme, r.lab.Relays[node].Facing(host).IPv6.Addr())
}

// publish starts the publisher of a broadcast.
func (r *tree) publish(broadcast int, host *lab.Host) error {
	file := filepath.Join(r.t.TempDir(), "clip.mp4")
	if err := os.WriteFile(file, r.clip.file, 0o600); err != nil {
		return err
	}
	node := r.treePlan.publishers[broadcast]
	url := r.urlOf(node, host, "moqt")
	if r.mesh {
		url = fmt.Sprint("moqt://", netip.AddrPortFrom(anycast, 4443))
		if err := route(host, anycast, r.lab.Relays[node]); err != nil {
			return err
		}
	}
	r.publishers = append(r.publishers, &guest{host: host, node: node})
	cmd := clientCommand(nameOf(broadcast), "pub", "--wait", "--relay", url, file)
	_, err := start(host, "publisher of "+nameOf(broadcast), cmd, func(string) {}, nil)
	return err
}

// view starts the i-th viewer.
func (r *tree) view(i int, seed uint64) error {
	v := &treeViewer{
		guest: guest{host: r.lab.Subscribers[i], node: r.treePlan.viewers[i]}, tree: r,
		scheme: []string{"moqt", "https"}[i%2], broadcast: nameOf((i + i/2) % broadcasts),
		random: rand.New(rand.NewPCG(seed, uint64(i))),
	}
	v.name = fmt.Sprintf("viewer %d of %s by %s", i, v.broadcast, v.scheme)
	r.viewers = append(r.viewers, v)
	if err := v.begin(); err != nil {
		return err
	}
	go v.live()
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
			errs = append(errs, v.unfinished())
		}
		if err := errors.Join(errs...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// recovery is how long after the end of a mishap media may be lost.
const recovery = 4 * time.Second

// excuses returns when media of a broadcast may be lost. When the node with the publisher dies, all lose what it alone
// had. A node that is cut off costs its own viewers something, and so does one that drains, if they have no other one
// to go to. All others have another way to get the media, and fetch what has passed until they have found it.
func (r *tree) excuses() (all spans) {
	for _, e := range r.played {
		s := &span{why: fmt.Sprintf("node %d %s", e.node, e.what), node: e.node}
		switch {
		case e.what == bereaved:
			s.node = everywhere
		case e.what == cut, e.what == drained && !r.mesh:
		default:
			continue
		}
		s.from, s.to = e.began, e.ended.Add(recovery)
		all = append(all, s)
	}
	return all
}

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
	var errs []error
	objects, excuses := 0, r.excuses()
	for _, v := range r.viewers {
		for i, l := range v.lives {
			objects += l.viewing.count()
			excused := excuses.of(l.nodes)
			if err := l.viewing.judge(began[v.broadcast], excused, i == len(v.lives)-1); err != nil {
				errs = append(errs, fmt.Errorf("%s, life %d: %w", l.name, i, err))
			}
		}
	}
	sent := 0
	for _, n := range r.clip.counts {
		sent += n * len(r.viewers)
	}
	r.t.Logf("%d events; %d objects arrived of %d, and none twice; missing: %v; %s", len(r.played), objects, sent,
		excuses, strings.Join(r.lives(), ", "))
	return errors.Join(errs...)
}

// checkFastPath checks that the kernels of the nodes have forwarded, to other nodes or to viewers: those of all, or of
// a cluster, in which some may have nothing to forward, of most.
func (r *tree) checkFastPath() error {
	idle := 0
	for _, n := range r.nodes {
		counts, err := n.counts()
		if err != nil {
			return err
		}
		if counts["copy_sent"] == 0 {
			idle++
			err = n.failure(fmt.Sprint("the kernel has forwarded nothing: ", counts))
		}
		if err != nil && (!r.mesh || idle > nodes/2) {
			return err
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
