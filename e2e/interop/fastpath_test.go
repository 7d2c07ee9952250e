package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/labtest"
)

// labRelay is a relay in a lab, with the kernel's fast path.
type labRelay struct {
	*relay
	lab   *lab.Lab
	admin *http.Client
}

const labRelayPort = 4443

func startLabRelay(t *testing.T) *labRelay {
	t.Helper()
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	r := &labRelay{relay: &relay{port: labRelayPort}, lab: l}
	r.admin = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
			err = l.Relay.Do(func() error {
				conn, err = new(net.Dialer).DialContext(ctx, network, addr)
				return err
			})
			return conn, err
		}}}
	args := []string{"relay", "--dev", "--listen", fmt.Sprintf(":%d", labRelayPort), "--fastpath", "on",
		"--idle-timeout", "3s"}
	for _, d := range l.Relay.Devices {
		args = append(args, "--dev-host", d.IPv4.Addr().String())
	}
	r.process = startBy(t, l.Relay.Start, nil, nil, "sluice", args...)
	require.Eventually(t, func() bool { return r.get("/healthz") != nil }, time.Minute, 20*time.Millisecond,
		"the relay does not start")
	r.readFingerprint(t)
	return r
}

// from returns the relay's URL for a host.
func (r *labRelay) from(h *lab.Host, scheme string) string {
	return fmt.Sprintf("%s://%v:%d", scheme, r.lab.Relay.Facing(h).IPv4.Addr(), r.port)
}

// get returns the answer of the admin address, or nil.
func (r *labRelay) get(path string) []byte {
	resp, err := r.admin.Get("http://127.0.0.1:4480" + path)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil
	}
	return body
}

// labSession is what this test reads of a session's status.
type labSession struct {
	Transport   string
	CipherSuite string `json:"cipher_suite"`
	Packets     struct {
		Kernel, Process, Acks uint64
		AckRequests           uint64 `json:"ack_requests"`
	}
	Declined map[string]uint64
}

func (r *labRelay) sessions(t *testing.T) []labSession {
	t.Helper()
	var status struct{ Sessions []labSession }
	require.NoError(t, json.Unmarshal(r.get("/status"), &status))
	return status.Sessions
}

// requireKernel expects at least so many packets with media, nearly all of them sent by the kernel: all but those that
// are too large for the path while its MTU is still being discovered.
func (r *labRelay) requireKernel(t *testing.T, atLeast uint64) {
	t.Helper()
	require.Greater(t, r.kernelShare(t, atLeast), 0.9, "the kernel's share of the packets: %s", r.get("/metrics"))
}

// kernelShare returns which share of the packets with media, of which it expects at least so many, the kernel sent.
func (r *labRelay) kernelShare(t *testing.T, atLeast uint64) float64 {
	t.Helper()
	var kernel, all uint64
	for _, s := range r.sessions(t) {
		t.Logf("%+v", s)
		require.Equal(t, "TLS_CHACHA20_POLY1305_SHA256", s.CipherSuite)
		kernel, all = kernel+s.Packets.Kernel, all+s.Packets.Kernel+s.Packets.Process
	}
	require.GreaterOrEqual(t, all, atLeast)
	return float64(kernel) / float64(all)
}

// requireFewAcks expects that subscribers were asked for fewer ACKs than one for every other packet, and that they
// obey. They understand ACK_FREQUENCY, as all that are built on quinn.
func (r *labRelay) requireFewAcks(t *testing.T) {
	t.Helper()
	for _, s := range r.sessions(t) {
		if packets := s.Packets.Kernel + s.Packets.Process; packets > 0 {
			require.NotZero(t, s.Packets.AckRequests)
			require.Less(t, float64(s.Packets.Acks), 0.42*float64(packets))
		}
	}
}

// TestFastPath has the kernel forward between public clients, in a lab.
func TestFastPath(t *testing.T) {
	client(t, "moq-pub")
	want := frames(t, clipFile)
	for _, scheme := range schemes {
		for _, pair := range [][2]string{{"sluice", "moq-sub"}, {"moq-pub", "moq-sub"}} {
			pub, sub := pair[0], pair[1]
			t.Run(fmt.Sprintf("%s %s to %s", scheme, pub, sub), func(t *testing.T) {
				r := startLabRelay(t)
				out, source, ended := clipInto(t)
				publisher := publish(t, r.lab.Publisher.Start, pub, r.from(r.lab.Publisher, scheme), source)
				player := play(t, r.lab.Subscribers[0].Start, sub, r.from(r.lab.Subscribers[0], scheme), out)
				<-ended
				awaitEnd(t, pub, publisher, player)
				require.Equal(t, want, frames(t, out.Name()))
				r.requireKernel(t, 500)
				r.requireFewAcks(t)
			})
		}
	}
}
