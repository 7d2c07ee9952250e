package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"sluice/congestion"
	"sluice/fastpath"
	"sluice/media"
	"sluice/moqt"
	"sluice/relay"
	"sluice/transport"
)

// start starts a server on loopback, without the fast path. It ends with the test.
func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg.Listen, cfg.Transport.Certificate, cfg.FastPath.Mode = "127.0.0.1:0", &cert, FastPathOff
	cfg.ListenLink = listenUDP(t)
	s := serve(t, cfg)
	t.Cleanup(func() { s.end(t) })
	return s.Server
}

// connect connects a client that leaves when the test ends.
func connect(t *testing.T, s *Server, scheme string) {
	t.Helper()
	c, err := transport.Dial(t.Context(), scheme+"://"+s.Addr().String()+"/path",
		transport.ClientConfig{Insecure: true, Protocols: moqt.ALPNs()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.CloseWithError(0, "")) })
}

func TestConfigIsChecked(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Coalesce must not be set: the server does": {
			Transport: transport.ListenConfig{Protocols: moqt.ALPNs()},
		},
		"set PerAddress.Sessions and Exempt of Relay": {
			Transport: transport.ListenConfig{MaxConnectionsPerSource: 1},
		},
		`FastPath.Mode: "maybe": must be auto, on or off`:       {FastPath: FastPathConfig{Mode: "maybe"}},
		"FastPath.MaxCopies: 600: must be between 1 and 512":    {FastPath: FastPathConfig{MaxCopies: 600}},
		"FastPath.MaxTracks: -1: must be between 1 and 1048576": {FastPath: FastPathConfig{MaxTracks: -1}},
		"AckTimeout: 10ms: must be at least 1s":                 {AckTimeout: 10 * time.Millisecond},
		"MaxBehind: -1s: must be at least 0":                    {MaxBehind: -time.Second},
		"MaxBehindBytes: -1: must be at least 0":                {MaxBehindBytes: -1},
		"a certificate file and a key file are required":        {},
	} {
		_, err := Listen(cfg)
		require.ErrorContains(t, err, want)
	}
}

// TestTracksOfFastPath expects that the fast path has room for each track that the relay may have.
func TestTracksOfFastPath(t *testing.T) {
	require.Equal(t, fastpath.DefaultMaxTracks, Config{}.withDefaults().FastPath.MaxTracks)
	cfg := Config{Relay: relay.Config{MaxTracks: 5}}
	require.Equal(t, 5, cfg.withDefaults().FastPath.MaxTracks)
	cfg.FastPath.MaxTracks = 3
	require.Equal(t, 3, cfg.withDefaults().FastPath.MaxTracks)
}

// TestFailedListen makes a part fail after the port was opened: the port is free again.
func TestFailedListen(t *testing.T) {
	cert, _, err := transport.DevCertificate()
	require.NoError(t, err)
	cfg := Config{
		Listen: "127.0.0.1:0", Transport: transport.ListenConfig{Certificate: &cert},
		FastPath: FastPathConfig{Mode: FastPathOff}, Relay: relay.Config{MaxTracks: -1},
	}
	_, err = Listen(cfg)
	require.ErrorContains(t, err, "MaxTracks")
	cfg.Relay.MaxTracks = 0
	cfg.FastPath = FastPathConfig{Mode: FastPathOn, Devices: []string{"none"}}
	_, err = Listen(cfg)
	var fastPath *FastPathError
	require.ErrorAs(t, err, &fastPath)
	require.ErrorContains(t, err, "fast path: network device none: ")
	cfg.FastPath.Mode = FastPathAuto
	s, err := Listen(cfg)
	require.NoError(t, err, "without the fast path")
	require.NoError(t, s.Drain("", 0))
	cfg.Listen, cfg.FastPath.Mode = s.Addr().String(), FastPathOff
	s, err = Listen(cfg)
	require.NoError(t, err, "the port is free")
	require.NoError(t, s.Drain("", 0))
}

// TestPartsOfConnections counts the parts that are made for each connection.
func TestPartsOfConnections(t *testing.T) {
	var controllers, policies atomic.Int32
	s := start(t, Config{
		NewController: func(mtu int) congestion.Controller {
			controllers.Add(1)
			return congestion.NewCubic(mtu)
		},
		NewDropPolicy: func() media.DropPolicy {
			policies.Add(1)
			return new(media.PriorityDrop)
		},
	})
	connect(t, s, "moqt")
	connect(t, s, "https")
	require.Eventually(t, func() bool { return controllers.Load() == 2 && policies.Load() == 2 }, time.Minute,
		time.Millisecond)
}

// TestLimitsOfSenders checks that media senders get the limits of the server.
func TestLimitsOfSenders(t *testing.T) {
	s := start(t, Config{AckTimeout: 5 * time.Second, MaxBehind: 4 * time.Second, MaxBehindBytes: 3})
	c := s.senderConfig(nil, false)
	require.Equal(t, 5*time.Second, c.AckTimeout)
	require.Equal(t, 4*time.Second, c.MaxBehind)
	require.EqualValues(t, 3, c.MaxBehindBytes)
}

func TestStatusAndMetrics(t *testing.T) {
	draining := []DrainingProcess{{PID: 77, Sessions: 3}}
	sockets := []SocketArrivals{{SameCPU: 5, OtherCPU: 4}, {SameCPU: 3}}
	s := start(t, Config{
		Draining: func() ([]DrainingProcess, error) { return draining, nil },
		Arrivals: func() ([]SocketArrivals, error) { return sockets, nil },
	})
	require.True(t, s.Alive())
	connect(t, s, "https")
	require.Eventually(t, func() bool { return len(s.Relay().Sessions()) == 1 }, time.Minute, time.Millisecond)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", s.ServeStatus)
	for path, c := range map[string]prometheus.Collector{"/metrics": s, "/sessions": s.SessionMetrics()} {
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		mux.Handle("GET "+path, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	}
	get := func(path string) string {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Body.String()
	}

	var st Status
	require.NoError(t, json.Unmarshal([]byte(get("/status")), &st))
	require.Nil(t, st.FastPath)
	require.Len(t, st.Sessions, 1)
	require.Equal(t, "/path", st.Sessions[0].Path)
	require.Equal(t, draining, st.Draining)
	require.Equal(t, sockets, st.Sockets)
	require.Equal(t, 1, s.Relay().OpenSessions())

	for path, want := range map[string]string{
		"/metrics":  "sluice_relay_sessions 1\n",
		"/sessions": `sluice_session_packets_total{by="kernel",session="1"} 0` + "\n",
	} {
		require.Contains(t, get(path), want)
	}
}

// The metrics of a session have the limits of its drop policy.
func TestSessionLimitMetrics(t *testing.T) {
	status, values := relay.SessionStatus{Threshold: 128<<8 | 32, BucketRate: 97_000}, make(map[string]float64)
	for _, v := range sessionValues {
		_, name, _ := strings.Cut(v.desc.String(), `"sluice_session_`)
		name, _, _ = strings.Cut(name, `"`)
		values[name] = v.value(&status)
	}
	require.EqualValues(t, 128<<8|32, values["priority_threshold"])
	require.EqualValues(t, 97_000, values["bucket_bytes_per_second"])
}

// TestSessionsPerAddress connects more often than an address may: the connection is refused, and counted.
func TestSessionsPerAddress(t *testing.T) {
	s := start(t, Config{Relay: relay.Config{PerAddress: relay.Quota{Sessions: 1}}})
	connect(t, s, "moqt")
	_, err := transport.Dial(t.Context(), "moqt://"+s.Addr().String(),
		transport.ClientConfig{Insecure: true, Protocols: moqt.ALPNs()})
	require.ErrorContains(t, err, "CONNECTION_REFUSED")
	registry := prometheus.NewRegistry()
	registry.MustRegister(s)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Regexp(t, `sluice_refused_connections_total\{limit="address"\} [1-9]`, w.Body.String())
}
