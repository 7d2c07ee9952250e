package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/lab"
)

// Client talks with the process that holds a lab.
type Client struct {
	name string
	http *http.Client
}

// Dial finds the lab of a name; the error is ErrNotUp if there is none.
func Dial(name string) (*Client, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socketPrefix+name)
		if err != nil {
			return nil, err
		}
		if _, err := peer(conn); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
	conn, err := dial(context.Background(), "", "")
	if errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("lab %s %w", name, ErrNotUp)
	}
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	conn.Close()
	return &Client{name, &http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
}

// Status returns the state of the lab. It waits for a lab that is being built.
func (c *Client) Status(ctx context.Context) (status lab.Status, err error) {
	err = c.do(ctx, http.MethodGet, "/status", nil, &status)
	return status, err
}

// Apply asks for a change of a link.
func (c *Client) Apply(ctx context.Context, change lab.Change) error {
	return c.do(ctx, http.MethodPost, "/link", change, &struct{}{})
}

// Down takes the lab down and returns when that is done.
func (c *Client) Down(ctx context.Context) error {
	err := c.do(ctx, http.MethodPost, "/down", nil, nil)
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	return err
}

func (c *Client) do(ctx context.Context, method, path string, request, response any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("lab %s: %w", c.name, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<12))
		return fmt.Errorf("lab %s: %s", c.name, bytes.TrimSpace(text))
	}
	if response == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(response)
}

// Names lists the labs that are up on this machine.
func Names() ([]string, error) {
	sockets, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	var names []string
	for line := range strings.Lines(string(sockets)) {
		// Only the listening socket counts. The fourth field has its flags: it accepts connections.
		fields := strings.Fields(line)
		if len(fields) == 8 && fields[3] == "00010000" {
			if name, ok := strings.CutPrefix(fields[7], socketPrefix); ok {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// Exec replaces this process by a command inside a host. The command finds the hosts of the lab by name.
// It returns only on failure.
func (c *Client) Exec(ctx context.Context, host string, argv []string, env []string) error {
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(s.Hosts, func(h lab.HostStatus) bool { return h.Name == host })
	if i < 0 {
		return fmt.Errorf("lab %s has no host %q; it has %s", s.Name, host, strings.Join(hostNames(s), ", "))
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // until execve, which keeps this thread's namespaces
	if err := enter(s.Hosts[i].Namespace); err != nil {
		return fmt.Errorf("enter %s: %w", host, err)
	}
	// A lab that still answers has not looked for processes yet, and will find this one. This request uses the first
	// request's connection: a new one would look for the lab inside the host.
	if _, err := c.Status(ctx); err != nil {
		return err
	}
	if err := nameHosts(hostsFile(s, host)); err != nil {
		return fmt.Errorf("name the hosts in /etc/hosts: %w", err)
	}
	return fmt.Errorf("run %s: %w", path, unix.Exec(path, argv, env))
}
