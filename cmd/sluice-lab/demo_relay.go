package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"sync"

	"sluice/lab"
	"sluice/relay"
	"sluice/server"
)

// demoRelay is a relay of the demo. Each but the first subscribes at its predecessor.
type demoRelay struct {
	*process
	stage stage
	host  string

	port, certificate string
	admin             *http.Client // in the relay's host
	adminAddress      string

	mu       sync.Mutex
	sessions map[string]relay.SessionStatus // as the relay described them last, by path
	kernel   bool                           // the relay has a fast path
}

// startRelays starts the relays. When one of them has ended although it was not asked to, it calls ended.
func (d *demo) startRelays(ctx context.Context, count int, ended func(error)) error {
	for i := 1; i <= count; i++ {
		if err := d.startRelay(ctx, lab.RelayHostName(i)); err != nil {
			return err
		}
		r := d.last()
		go func() {
			<-r.done
			if !d.ending.Load() {
				ended(r.ended())
			}
		}()
	}
	return nil
}

// startRelay starts one more relay in a host.
func (d *demo) startRelay(ctx context.Context, host string) error {
	r := &demoRelay{stage: d.stage, host: host, sessions: make(map[string]relay.SessionStatus)}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		return r.stage.dial(ctx, host, address)
	}
	r.admin = &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	args := []string{"relay", "--listen", ":0", "--dev", "--admin", "127.0.0.1:0", "--drain", "3s",
		"--fastpath", d.fastPath, "--log-level", "warn"}
	if len(d.relays) > 0 {
		args = append(args, "--upstream", d.last().url(host, "moqt"), "--upstream-tls-disable-verify")
	}
	var err error
	if r.process, err = d.stage.command(ctx, host, nil, args...); err != nil {
		return err
	}
	d.relays = append(d.relays, r)
	for _, said := range []struct {
		text, pattern string
		value         *string
	}{
		{"raw QUIC", `:(\d+)$`, &r.port},
		{"certificate", `[0-9a-f]{64}`, &r.certificate},
		{"metrics", `http://([^/]+)/`, &r.adminAddress},
	} {
		if *said.value, err = r.says(ctx, said.text, said.pattern); err != nil {
			return err
		}
	}
	return nil
}

// says waits for the line of the relay that contains a text. It returns the part that a pattern, or its group,
// matches.
func (r *demoRelay) says(ctx context.Context, text, pattern string) (string, error) {
	line, err := r.await(ctx, text)
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(pattern).FindStringSubmatch(line)
	if match == nil {
		return "", r.failure(fmt.Errorf("no %s in %q", pattern, line))
	}
	return match[len(match)-1], nil
}

// ended says that the relay has ended, and why.
func (r *demoRelay) ended() error {
	if r.err != nil {
		return r.err
	}
	return r.failure(errors.New("has ended"))
}

// url returns the URL by which a host reaches the relay. Its path tells the host's session from others.
func (r *demoRelay) url(host, scheme string) string {
	return scheme + "://" + net.JoinHostPort(r.stage.relayAddress(r.host, host), r.port) + "/" + host
}

// reach returns the flags by which a publisher or a subscriber reaches the broadcast at the relay.
func (r *demoRelay) reach(host, scheme string) []string {
	return []string{"--relay", r.url(host, scheme), "--namespace", demoNamespace, "--tls-sha256", r.certificate}
}

// observe asks the relay how much it has sent to each session. If it is too busy to answer, the last answer stays.
func (r *demoRelay) observe(ctx context.Context) {
	st, _, err := server.GetStatus(ctx, r.admin, r.adminAddress)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kernel = st.FastPath != nil
	for _, s := range st.Sessions {
		r.sessions[s.Path] = s
	}
}

// session returns the last status of a host's session.
func (r *demoRelay) session(host string) relay.SessionStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions["/"+host]
}

// usesKernel reports whether the relay has a fast path.
func (r *demoRelay) usesKernel() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kernel
}
