package chaos

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sluice/lab"
	"sluice/server"
	"sluice/transport"
)

// relay is a relay of the lab.
type relay struct {
	*process
	relayConfig
	client *http.Client
	number int           // of certificates so far
	bpf    kernelObjects // when holds was called last
	before []replaced    // that still drained when settle was called last
}

// replaced is a process that another one has replaced.
type replaced struct {
	*process
	bpf kernelObjects
}

// relayConfig says how a relay differs from others.
type relayConfig struct {
	title   string
	host    *lab.Host
	port    int
	rtsp    int // TCP port; 0: none
	rtsps   int
	control string // the socket by which another process can replace it, or ""
	admin   string
	dir     string       // with its certificates and tokens; relays that share one have the same
	args    []string     // besides those that all relays have
	message func(string) // gets its messages, once each
}

// serveRTSP has the i-th relay serve RTSP, at ports of its own.
func (c *relayConfig) serveRTSP(i int) {
	c.rtsp, c.rtsps = 8554+i, 8322+i
	c.args = append(c.args, "--rtsp", fmt.Sprintf(":%d", c.rtsp), "--rtsp-rtp", fmt.Sprintf(":%d", 8000+2*i),
		"--rtsps", fmt.Sprintf(":%d", c.rtsps), "--rtsps-rtp", fmt.Sprintf(":%d", 8100+2*i),
		"--rtsp-idle-timeout", "10s")
}

// startRelay starts a relay.
func startRelay(cfg relayConfig) (*relay, error) {
	r := &relay{relayConfig: cfg, client: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialIn(cfg.host)},
	}}
	if _, err := os.Stat(filepath.Join(r.dir, "current")); err != nil {
		if err := errors.Join(r.renew(), r.allow(true, 0)); err != nil {
			return nil, err
		}
	}
	return r, r.begin()
}

// begin starts the relay's process, and waits until it is ready.
func (r *relay) begin(more ...string) (err error) {
	if r.control != "" {
		more = append(more, "--control", r.control)
	}
	cmd := exec.Command("sluice", append([]string{
		"relay", "--listen", fmt.Sprintf(":%d", r.port), "--admin", r.admin, "--admin-pprof",
		"--log-format", "json", "--log-level", "debug",
		"--tls-cert", filepath.Join(r.dir, "current", "cert.pem"),
		"--tls-key", filepath.Join(r.dir, "current", "key.pem"), "--auth-token-file", filepath.Join(r.dir, "tokens"),
		// What is kept for peers that have gone is given back sooner than by default, so that the test can wait for it.
		"--cache-duration", "5s", "--cache-size", "64", "--idle-timeout", "10s", "--drain", "5s",
	}, append(more, r.args...)...)...)
	cmd.Env = append(os.Environ(), "SLUICE_UPSTREAM_TOKEN="+honestToken)
	if r.process, err = start(r.host, r.title, cmd, func(string) {}, r.message); err != nil {
		return err
	}
	return r.await()
}

// dialIn returns a function that dials inside a host.
func dialIn(h *lab.Host) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = h.Do(func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

// await waits until the relay is ready.
func (r *relay) await() error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := r.get("/readyz")
		if n := len(r.before); err == nil && n > 0 && !r.before[n-1].said("another process has taken over") {
			err = errors.New("it has not taken over") // so the other one is ready
		}
		if err == nil {
			return nil
		}
		select {
		case <-r.done:
			return r.failure("has ended")
		default:
		}
		if time.Now().After(deadline) {
			return r.failure(err)
		}
	}
}

// replace has another process take over from the relay's. That one goes on until all its peers have moved or left.
func (r *relay) replace() error {
	bpf, err := objectsOf(r.cmd.Process.Pid)
	if err != nil {
		return err
	}
	r.before = append(r.before, replaced{r.process, bpf})
	return r.begin("--replace")
}

// awaitReplaced waits until the processes that were replaced have ended, and the kernel has nothing of them that they
// have not handed over.
func (r *relay) awaitReplaced() error {
	if len(r.before) == 0 {
		return nil
	}
	bpf, err := objectsOf(r.cmd.Process.Pid)
	if err != nil {
		return err
	}
	deadline := time.After(90 * time.Second)
	for _, p := range r.before {
		select {
		case <-p.done:
		case <-deadline:
			return p.failure("still drains")
		}
		if err := errors.Join(p.result(), p.bpf.without(bpf).awaitGone()); err != nil {
			return err
		}
	}
	r.before = nil
	return nil
}

// get reads a page of the admin address.
func (r *relay) get(path string) (string, error) {
	response, err := r.client.Get("http://" + r.admin + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, response.Status)
	}
	return string(text), err
}

// counts returns what the kernel has done, by reason.
func (r *relay) counts() (map[string]uint64, error) {
	text, err := r.get("/status")
	if err != nil {
		return nil, err
	}
	var s server.Status
	err = json.Unmarshal([]byte(text), &s)
	return s.FastPath, err
}

// renew gives the relay a new certificate. Both files change at once, by one rename of a link.
func (r *relay) renew() error {
	r.number++
	name := fmt.Sprint(r.number)
	cert, _, err := transport.DevCertificate()
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	encode := func(file, typ string, der []byte) error {
		b := pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der})
		return os.WriteFile(filepath.Join(r.dir, name, file), b, 0o600)
	}
	next := filepath.Join(r.dir, "next")
	if err := os.MkdirAll(filepath.Join(r.dir, name), 0o700); err != nil {
		return err
	}
	return errors.Join(encode("cert.pem", "CERTIFICATE", cert.Certificate[0]), encode("key.pem", "PRIVATE KEY", key),
		os.Symlink(name, next), os.Rename(next, filepath.Join(r.dir, "current")))
}

// Tokens of honest and of hostile peers.
const (
	honestToken  = "honest-token-of-the-chaos-test"
	hostileToken = "hostile-token-of-the-chaos-test"
)

// allow writes the token file. Hostile peers may publish and subscribe to everything, or nothing.
func (r *relay) allow(hostile bool, comment uint64) error {
	lines := fmt.Sprintf("# %x\n%s all *\n", comment, honestToken)
	if hostile {
		lines += hostileToken + " all *\n"
	}
	next := filepath.Join(r.dir, "tokens.next")
	return errors.Join(os.WriteFile(next, []byte(lines), 0o600), os.Rename(next, filepath.Join(r.dir, "tokens")))
}

// knownMessages are the messages that a relay may log in a run, by their beginning.
var knownMessages = []string{
	"session started", "session ended", "the fast path is on", "the fast path is off",
	"reloaded the authorization tokens", "reloaded the TLS certificate", "a quota is used up", "malformed track",
	"a publisher was replaced, as it does not answer any more", "no process can replace this one while it runs",
	"draining", "ended", "another process is getting ready to take over",
	"another process has taken over; draining", "linked with another process of the relay",
	// One that ended meanwhile, as it was replaced, too.
	"no link with another process of the relay", "the link with another process of the relay was lost",
	"programs of another relay are attached to the device; each handles its own connections",
	"published by RTSP", "the publisher by RTSP has left", "an RTSP broadcast has no codec that MoQ broadcasts have",
	"an RTSP broadcast is not a MoQ broadcast any more", "RTSP clients do not get a MoQ broadcast",
	"user space sends the packets of an RTSP publisher", "an RTSP client had to leave",
	"WebTransport session refused", // to an attacker that is killed meanwhile
}

// checkMessage returns an error for a message that a relay must not log.
func checkMessage(line string, knownMessages []string) error {
	var m struct{ Level, Msg string }
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return fmt.Errorf("not a message: %s", line)
	}
	if m.Level == "DEBUG" {
		return nil
	}
	known := slices.ContainsFunc(knownMessages, func(begin string) bool { return strings.HasPrefix(m.Msg, begin) })
	if !known || m.Level == "ERROR" {
		return fmt.Errorf("an unexpected message: %s", line)
	}
	return nil
}

// stop ends the relay, and checks that the kernel keeps nothing of it.
func (r *relay) stop() error {
	r.signal(syscall.SIGTERM)
	return errors.Join(r.result(), r.bpf.awaitGone())
}
