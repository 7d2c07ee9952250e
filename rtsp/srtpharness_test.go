package rtsp

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"testing"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/stretchr/testify/require"

	"sluice/internal/logs/logstest"
)

// secureServer has both addresses, and UDP ports for both.
type secureServer struct {
	*Server
	t    *testing.T
	conf *tls.Config // of clients
	log  *logstest.Buffer
}

func newSecureServer(t *testing.T, options ...func(*Config)) *secureServer {
	t.Helper()
	w := &secureServer{t: t, log: new(logstest.Buffer)}
	w.Server, w.conf = newTLSServer(t, append(options, func(c *Config) {
		c.SRTPAddress = "any"
		c.Logger = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})...)
	return w
}

func (w *secureServer) url(path string) *base.URL {
	u, err := base.ParseURL("rtsps://" + w.TLSAddr().String() + path)
	require.NoError(w.t, err)
	return u
}

// tap sees the datagrams of a client, and may change them, drop them (nil) or keep copies.
type tap struct {
	*net.UDPConn
	out, in func([]byte) []byte // nil: as they are
}

func (c *tap) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.out != nil {
		changed := c.out(bytes.Clone(b))
		if changed == nil {
			return len(b), nil
		}
		return c.UDPConn.WriteTo(changed, to)
	}
	return c.UDPConn.WriteTo(b, to)
}

func (c *tap) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.UDPConn.ReadFrom(b)
		if err != nil || c.in == nil {
			return n, from, err
		}
		if changed := c.in(bytes.Clone(b[:n])); changed != nil {
			return copy(b, changed), from, nil
		}
	}
}

// tapped returns a function that makes taps for the ports of a client.
func tapped(out, in func([]byte) []byte) func(network, address string) (net.PacketConn, error) {
	return func(network, address string) (net.PacketConn, error) {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			return nil, err
		}
		return &tap{c.(*net.UDPConn), out, in}, nil
	}
}

// publish publishes by SRTP over UDP, unless the options say something else.
func (w *secureServer) publish(path string, options ...func(*gortsplib.Client)) *sender {
	w.t.Helper()
	c := &sender{t: w.t, client: &gortsplib.Client{TLSConfig: w.conf}, desc: broadcast()}
	for _, o := range options {
		o(c.client)
	}
	require.NoError(w.t, c.client.StartRecording(w.url(path).String(), c.desc))
	w.t.Cleanup(c.client.Close)
	return c
}

func (w *secureServer) play(path string, options ...func(*gortsplib.Client)) *receiver {
	w.t.Helper()
	c := &receiver{t: w.t, client: &gortsplib.Client{TLSConfig: w.conf}}
	for _, o := range options {
		o(c.client)
	}
	return c.play(w.url(path), true)
}
