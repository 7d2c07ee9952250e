package main

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// linked are the modules that sluice links, and why. It runs with privileges, so each module is a decision.
var linked = map[string]string{
	"github.com/cilium/ebpf":                    "loads the programs of the fast path and of the monitor",
	"github.com/coreos/go-systemd/v22":          "tells systemd that the relay is ready and alive",
	"github.com/quic-go/quic-go":                "QUIC, with the patches in third_party",
	"github.com/quic-go/qpack":                  "header compression, for WebTransport",
	"github.com/quic-go/webtransport-go":        "WebTransport, with the patches in third_party",
	"github.com/dunglas/httpsfv":                "structured header fields, for WebTransport",
	"github.com/spf13/cobra":                    "the command line",
	"github.com/spf13/pflag":                    "its flags",
	"github.com/Eyevinn/mp4ff":                  "sluice sub: MP4 of frames without a container",
	"github.com/bluenviron/mediacommon/v2":      "parameter sets and the order of pictures, for that",
	"github.com/fxamacker/cbor/v2":              "CBOR, for Common Access Tokens",
	"github.com/veraison/go-cose":               "signatures of COSE, for Common Access Tokens",
	"github.com/x448/float16":                   "imported by cbor",
	"github.com/go-jose/go-jose/v4":             "JSON Web Tokens and the keys of signed tokens",
	"github.com/hashicorp/golang-lru/v2":        "bounded caches of authorization",
	"github.com/nats-io/nats-server/v2":         "the embedded engine of clusters",
	"github.com/nats-io/nats.go":                "its client",
	"github.com/nats-io/jwt/v2":                 "imported by nats-server, as those that follow",
	"github.com/nats-io/nkeys":                  "",
	"github.com/nats-io/nuid":                   "",
	"github.com/klauspost/compress":             "",
	"github.com/minio/highwayhash":              "",
	"github.com/antithesishq/antithesis-sdk-go": "its variant without effect",
	"github.com/prometheus/client_golang":       "metrics",
	"github.com/prometheus/client_model":        "imported by client_golang, as those that follow",
	"github.com/prometheus/common":              "",
	"github.com/prometheus/procfs":              "",
	"github.com/beorn7/perks":                   "",
	"github.com/cespare/xxhash/v2":              "",
	"github.com/munnerz/goautoneg":              "",
	"google.golang.org/protobuf":                "",

	"go.opentelemetry.io/otel":                                          "OTLP: spans",
	"go.opentelemetry.io/otel/sdk":                                      "",
	"go.opentelemetry.io/otel/sdk/metric":                               "OTLP: metrics",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp":   "OTLP over HTTP",
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp": "",
	"go.opentelemetry.io/contrib/bridges/prometheus":                    "OTLP of Prometheus' metrics",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace":                 "imported by these, as those that follow",
	"go.opentelemetry.io/otel/metric":                                   "",
	"go.opentelemetry.io/otel/trace":                                    "",
	"go.opentelemetry.io/otel/log":                                      "",
	"go.opentelemetry.io/auto/sdk":                                      "",
	"go.opentelemetry.io/proto/otlp":                                    "",
	"github.com/cenkalti/backoff/v5":                                    "",
	"github.com/go-logr/logr":                                           "",
	"github.com/go-logr/stdr":                                           "",
	"github.com/grpc-ecosystem/grpc-gateway/v2":                         "",
	"google.golang.org/genproto/googleapis/api":                         "",
	"google.golang.org/genproto/googleapis/rpc":                         "",
	"google.golang.org/grpc":                                            "",

	"github.com/bluenviron/gortsplib/v5": "RTSP, RTP and RTCP",
	"github.com/pion/rtp":                "imported by gortsplib, as those that follow",
	"github.com/pion/rtcp":               "",
	"github.com/pion/sdp/v3":             "",
	"github.com/pion/srtp/v3":            "",
	"github.com/pion/transport/v4":       "",
	"github.com/pion/logging":            "",
	"github.com/pion/randutil":           "",
	"github.com/gorilla/websocket":       "",
	"github.com/google/uuid":             "",

	"github.com/caddyserver/certmagic": "certificates of an authority (ACME)",
	"github.com/mholt/acmez/v3":        "its client",
	"github.com/caddyserver/zerossl":   "imported by certmagic, as those that follow",
	"github.com/klauspost/cpuid/v2":    "",
	"github.com/libdns/libdns":         "",
	"github.com/miekg/dns":             "",
	"github.com/zeebo/blake3":          "",
	"go.uber.org/zap":                  "",
	"go.uber.org/zap/exp":              "",
	"go.uber.org/multierr":             "",

	"kernel.org/pub/linux/libs/security/libcap/cap": "sluice relay: gives up capabilities in all threads",
	"kernel.org/pub/linux/libs/security/libcap/psx": "imported by cap",

	"go.yaml.in/yaml/v3": "files with settings",

	"github.com/google/nftables":  "sluice doctor: the rules of the firewall",
	"github.com/mdlayher/netlink": "imported by nftables, as the next",
	"github.com/mdlayher/socket":  "",
	"github.com/safchain/ethtool": "sluice doctor: the offloads of devices",

	"golang.org/x/crypto": "ChaCha20-Poly1305",
	"golang.org/x/net":    "socket options",
	"golang.org/x/sync":   "errgroup",
	"golang.org/x/sys":    "system calls",
	"golang.org/x/text":   "imported by x/net",
	"golang.org/x/time":   "rate limits",
}

// linkedByMonitor are the modules that only sluice-rtt links. Most others of its modules are for metrics.
var linkedByMonitor = map[string]string{
	"github.com/vishvananda/netlink":      "attaches programs to a clsact qdisc and for XDP",
	"github.com/vishvananda/netns":        "imported by netlink",
	"github.com/parquet-go/parquet-go":    "the history",
	"github.com/parquet-go/bitpack":       "imported by parquet-go, as those that follow",
	"github.com/parquet-go/jsonlite":      "",
	"github.com/andybalholm/brotli":       "",
	"github.com/pierrec/lz4/v4":           "",
	"github.com/twpayne/go-geom":          "",
	"go.opentelemetry.io/proto/slim/otlp": "what is sent as OpenTelemetry metrics",
}

// notLinked are packages of this module that a program does without: the monitor's, the relay's, and packages that only
// sluice-lab and tests use.
var notLinked = map[string][]string{
	"sluice": {
		"sluice/rtt/command", "sluice/rtt/kernel", "sluice/rtt/history", "sluice/lab/bench", "sluice/lab",
		"sluice/scripts/lint", "sluice/cmd/sluice-lab",
	},
	"sluice-rtt": {"sluice/relay", "sluice/server", "sluice/transport", "sluice/lab"},
}

// linkedBy returns the modules that a program links.
func linkedBy(t *testing.T, program string) (modules []string) {
	t.Helper()
	const format = "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}"
	out, err := exec.Command("go", "list", "-deps", "-f", format, "../"+program).Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		path, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, not := range notLinked[program] {
			require.False(t, path == not || strings.HasPrefix(path, not+"/"), "%s links %s", program, path)
		}
		require.False(t, module == "sluice" && strings.HasSuffix(path, "test"), "%s is for tests", path)
		if module != "" && module != "sluice" && !slices.Contains(modules, module) {
			modules = append(modules, module)
		}
	}
	return modules
}

// TestLinkedPackages keeps plotters and labs out of the daemons, and each of these out of the other.
func TestLinkedPackages(t *testing.T) {
	require.ElementsMatch(t, slices.Collect(maps.Keys(linked)), linkedBy(t, "sluice"))
	monitor := linkedBy(t, "sluice-rtt")
	require.Subset(t, monitor, slices.Collect(maps.Keys(linkedByMonitor)))
	both := maps.Clone(linked)
	maps.Copy(both, linkedByMonitor)
	require.Subset(t, slices.Collect(maps.Keys(both)), monitor)
	require.NotContains(t, monitor, "github.com/quic-go/quic-go")
}

// TestPacketsAreProtected keeps code that removes packet protection out of every build without the tag unprotected.
func TestPacketsAreProtected(t *testing.T) {
	for tags, want := range map[string]bool{"": false, "unprotected": true} {
		const format = "{{range .GoFiles}}{{.}} {{end}}{{.EmbedFiles}}"
		out, err := exec.Command("go", "list", "-deps", "-tags", tags, "-f", format, ".", "../sluice-lab").Output()
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(string(out), "unprotected"), "tags %q", tags)
	}
	out, err := exec.Command("make", "--directory=../..", "--dry-run", "deb", "image").CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "go build")
	require.NotContains(t, string(out), "unprotected")
}
