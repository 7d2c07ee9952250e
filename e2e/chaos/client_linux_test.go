package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// client is an honest publisher or viewer. Each time that it is killed, it gets a new life, which is a process.
type client struct {
	role
	run   *run
	relay int
	views bool

	mu    sync.Mutex
	life  *life
	last  bool // no new life begins
	lives int
}

// life is a process of a client.
type life struct {
	*process
	viewing *viewing // of a viewer
	killed  bool     // guarded by client.mu
}

func (c *client) name() string {
	what := "publisher"
	if c.views {
		what = "viewer"
	}
	return fmt.Sprintf("%s of %s at %s, by %s", what, c.broadcast, relayNames[c.relay], c.scheme)
}

// begin starts a life.
func (c *client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	args := []string{"--relay", c.run.url(c.role, c.relay), "--tls-disable-verify", "--namespace",
		strings.Join(namespace(c.relay, c.broadcast), "/")}
	l := &life{}
	output := func(string) {}
	if c.views {
		l.viewing = newViewing(c.run.clip)
		output = func(line string) {
			if err := l.viewing.take(line); err != nil {
				c.mu.Lock() // until the life has its process
				defer c.mu.Unlock()
				c.run.fail(l.failure(err))
			}
		}
		args = append([]string{"sub"}, append(args, "--raw", "--tracks", "1.m4s,2.m4s", "--wait", "1m")...)
	} else {
		args = append([]string{"pub"}, append(args, "--wait", c.run.file)...)
	}
	cmd := exec.Command("sluice", args...)
	cmd.Env = append(os.Environ(), "SLUICE_AUTH_TOKEN="+honestToken)
	var err error
	if l.process, err = start(c.run.host(c.host), c.name(), cmd, output, nil); err != nil {
		return err
	}
	c.life = l
	c.lives++
	return nil
}

// kill kills the process. Another life follows.
func (c *client) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life.killed = true
	c.life.signal(syscall.SIGKILL)
}

// end asks the client to end; no other life follows.
func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = true
	if c.broadcast == mortalBroadcast && !c.views {
		c.life.signal(syscall.SIGTERM)
	}
}

func (c *client) current() *life {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life
}

// live waits for the end of each life, and begins the next. It returns when the last one has ended.
func (c *client) live() error {
	for {
		l := c.current()
		<-l.done
		again, err := c.after(l)
		if err != nil || !again {
			return err
		}
		if err := c.begin(); err != nil {
			return err
		}
	}
}

// after judges a life that has ended, and reports whether another one follows.
func (c *client) after(l *life) (again bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.views {
		c.run.received.Add(int64(l.viewing.count()))
	}
	switch {
	case l.killed:
		return !c.last, nil
	case c.broadcast == mortalBroadcast && c.views: // it may end with its publisher
		return !c.last, nil
	}
	if err := l.result(); err != nil {
		return false, err
	}
	if l.lost { // and has found another one
		return false, l.failure("it has lost its session")
	}
	if c.views {
		if err := l.viewing.complete(!c.mortal, c.run.heardOf(c, leftOut), c.run.heardOf(c, mayRepeat)); err != nil {
			return false, l.failure(err)
		}
	}
	return false, nil
}
