package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"sluice/internal/lab"
)

// guest is where a publisher or a viewer of a tree is.
type guest struct {
	host *lab.Host

	mu    sync.Mutex
	node  int
	moved bool // it has followed a GOAWAY to the refuge
}

// follow prepares for a node that drains: its clients go to another one. A client that is at the refuge already cannot.
func (g *guest) follow(r *tree, from, to int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.node != from || g.moved {
		return nil
	}
	g.node, g.moved = to, true
	return route(g.host, refuge, r.lab.Relays[to])
}

// lead leads a client from one node to another, where it finds out that its session is not known.
func (g *guest) lead(r *tree, from, to int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.node != from {
		return nil
	}
	g.node = to
	if err := route(g.host, anycast, r.lab.Relays[to]); err != nil {
		return err
	}
	return route(g.host, refuge, r.lab.Relays[to])
}

// treeViewer is a viewer at a node. When its session has ended, another process follows, at any node of a cluster.
type treeViewer struct {
	guest
	tree      *tree
	name      string
	scheme    string
	broadcast string
	random    *rand.Rand

	lives []*life // guarded by guest.mu
	last  bool    // the latest one has seen the end; likewise
}

// follow is that of the guest, for the latest life.
func (v *treeViewer) follow(r *tree, from, to int) error {
	l := v.latest()
	err := v.guest.follow(r, from, to)
	v.mu.Lock()
	defer v.mu.Unlock()
	l.nodes = append(l.nodes, v.node)
	return err
}

// begin starts another life.
func (v *treeViewer) begin() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.moved = false; v.tree.mesh && len(v.lives) > 0 {
		v.node = v.random.IntN(nodes)
	}
	url := v.tree.urlOf(v.node, v.host, v.scheme)
	cmd := clientCommand(v.broadcast, "sub", "--raw", "--tracks", "1.m4s,2.m4s", "--wait", "1m", "--reconnect", "0",
		"--relay", url)
	l := &life{viewing: newViewing(v.tree.clip), nodes: []int{v.node}}
	var err error
	l.process, err = start(v.host, fmt.Sprintf("%s at node %d", v.name, v.node), cmd, func(line string) {
		if err := l.viewing.take(line); err != nil {
			v.tree.stop(fmt.Errorf("%s: %w", l.name, err))
		}
	}, nil)
	v.lives = append(v.lives, l)
	return err
}

// latest returns the latest life.
func (v *treeViewer) latest() *life {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lives[len(v.lives)-1]
}

// leave ends a life. The next one begins elsewhere.
func (v *treeViewer) leave() { v.latest().signal(syscall.SIGKILL) }

// live begins another life when one has ended before the clip.
func (v *treeViewer) live() {
	for v.tree.ctx.Err() == nil {
		if v.latest().result() == nil {
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

// unfinished returns an error unless the viewer has seen the end.
func (v *treeViewer) unfinished() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last {
		return nil
	}
	return v.lives[len(v.lives)-1].failure("does not end")
}

// clientCommand returns a command that publishes or subscribes at a node.
func clientCommand(broadcast string, args ...string) *exec.Cmd {
	cmd := exec.Command("sluice", append(args, "--tls-disable-verify", "--namespace", "chaos/"+broadcast)...)
	cmd.Env = append(os.Environ(), "SLUICE_AUTH_TOKEN="+honestToken)
	return cmd
}
