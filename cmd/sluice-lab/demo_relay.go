package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"sync"

	"sluice/lab/process"
	"sluice/relay"
	"sluice/server"
)

// demoRelay is a relay of the demo. Each but the first subscribes at its predecessor.
type demoRelay struct {
	*process.Process
	stage stage
	host  string

	port, certificate string
	admin             *http.Client // in the relay's host
	adminAddress      string

	mu       sync.Mutex
	sessions map[string]relay.SessionStatus // as the relay described them last, by path
	kernel   bool                           // the relay has a fast path
}

// says waits for the line of the relay that contains a text. It returns the part that a pattern, or its group,
// matches.
func (r *demoRelay) says(ctx context.Context, text, pattern string) (string, error) {
	line, err := r.Await(ctx, text, demoSetUp)
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(pattern).FindStringSubmatch(line)
	if match == nil {
		return "", r.Failure(fmt.Errorf("no %s in %q", pattern, line))
	}
	return match[len(match)-1], nil
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
func (r *demoRelay) observe() {
	answer, err := r.admin.Get("http://" + r.adminAddress + "/status")
	if err != nil {
		return
	}
	defer answer.Body.Close()
	var st server.Status
	if json.NewDecoder(answer.Body).Decode(&st) != nil {
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
