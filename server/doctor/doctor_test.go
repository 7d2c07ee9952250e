package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/certtest"
	"sluice/transport"
)

var everywhere = netip.MustParseAddrPort("[::]:443")

// fit returns a machine without a fault.
func fit() *Machine {
	files := map[string]string{
		"/proc/net/ip_tables_names":                  "",
		"/proc/sys/kernel/osrelease":                 "6.12.1-amd64\n",
		"/proc/self/limits":                          "Limit\nMax open files  65536  65536  files\n",
		"/proc/meminfo":                              "MemTotal:  9 kB\nMemAvailable:    1048576 kB\n",
		"/proc/sys/net/core/rmem_max":                "8388608\n",
		"/proc/sys/net/core/wmem_max":                "8388608\n",
		"/proc/sys/net/netfilter/nf_conntrack_max":   "65536\n",
		"/proc/sys/net/netfilter/nf_conntrack_count": "7\n",
		"/sys/class/net/eth0/mtu":                    "1500\n",
		"/sys/class/net/eth0/queues/rx-0/rps_cpus":   "3\n",
		"/sys/class/net/eth0/device/uevent":          "DRIVER=mlx5_core\n",
	}
	return &Machine{
		Config: Config{
			Ports:    []Port{{"udp", everywhere, "no client connects"}, {"tcp", everywhere, "no page"}},
			FastPath: "auto", Devices: []string{"eth0"}, CacheBytes: 256 << 20, MaxSessions: 16384,
			LoadFastPath: func() error { return nil }, ReadKeys: func() error { return nil },
			Dial: func(_ context.Context, url string) (transport.Conn, error) { return nil, errors.New(url) },
		},
		now: time.Now(), processors: 2,
		read: func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		features: func(string) (map[string]bool, error) {
			return map[string]bool{"rx-udp-gro-forwarding": false, "tx-udp-segmentation": true}, nil
		},
		synced:   func() (bool, error) { return true, nil },
		firewall: func(packet) (verdict, error) { return verdict{}, nil },
		listen:   func(string, string) (io.Closer, error) { return io.NopCloser(nil), nil },
		resolve:  func(context.Context, string) ([]string, error) { return nil, nil },
	}
}

func TestFitMachine(t *testing.T) {
	found := Examine(t.Context(), fit(), false)
	require.Len(t, found, len(checks)-3) // nothing to reach, and no certificate
	for _, f := range found {
		require.Equal(t, Fine, f.Verdict, "%+v", f)
	}
	require.Less(t, len(Examine(t.Context(), fit(), true)), len(found))
}

func TestFaults(t *testing.T) {
	set := func(path, text string) func(*Machine) {
		return func(m *Machine) {
			read := m.read
			m.read = func(name string) ([]byte, error) {
				if name == path {
					return []byte(text), nil
				}
				return read(name)
			}
		}
	}
	with := func(changes ...func(*Machine)) func(*Machine) {
		return func(m *Machine) {
			for _, change := range changes {
				change(m)
			}
		}
	}
	unloadable := func(reason string) func(*Machine) {
		return func(m *Machine) { m.LoadFastPath = func() error { return errors.New(reason) } }
	}
	port := func(err error) func(*Machine) {
		return func(m *Machine) { m.listen = func(string, string) (io.Closer, error) { return nil, err } }
	}
	firewall := func(v verdict, err error) func(*Machine) {
		return func(m *Machine) { m.firewall = func(packet) (verdict, error) { return v, err } }
	}
	for name, tt := range map[string]struct {
		change func(*Machine)
		check  string
		want   Verdict
		text   string // in the finding
	}{
		"hidden": {func(m *Machine) { m.read = func(path string) ([]byte, error) { return nil, errors.New(path) } },
			"conntrack", Unknown, "/proc/sys"},
		"no programs": {unloadable("no CAP_BPF"), "fast path", Better, "setcap"},
		"required programs": {with(unloadable("no"), func(m *Machine) { m.FastPath = "on" }),
			"fast path", Wrong, "does not start"},
		"off":       {with(unloadable("no"), func(m *Machine) { m.FastPath = "off" }), "fast path", Fine, "off: "},
		"small MTU": {set("/sys/class/net/eth0/mtu", "1200"), "device", Wrong, "mlx5_core"},
		"merging": {func(m *Machine) {
			m.features = func(string) (map[string]bool, error) {
				return map[string]bool{"rx-udp-gro-forwarding": true}, nil
			}
		}, "offloads", Better, "ethtool -K eth0 rx-udp-gro-forwarding off"},
		"one queue": {set("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0,00000000"), "queues", Better, "echo 3 >"},
		"two queues": {with(set("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0"),
			set("/sys/class/net/eth0/queues/rx-1/rps_cpus", "0")), "queues", Fine, "several"},
		"enough": {set("/proc/sys/net/core/rmem_max", "4194304"), "buffers", Fine, "7340032 bytes or more"},
		"buffers": {set("/proc/sys/net/core/rmem_max", "212992"),
			"buffers", Better, "sysctl -w net.core.rmem_max=8388608"},
		"dropped": {firewall(verdict{drops: true, by: "inet filter input"}, nil), "firewall", Wrong,
			"nft insert rule inet filter input udp dport 443 accept"},
		"perhaps":  {firewall(verdict{drops: true, unsure: true}, nil), "firewall", Better, "perhaps"},
		"not seen": {firewall(verdict{}, errors.New("not permitted")), "firewall", Unknown, "not permitted"},
		"legacy": {set("/proc/net/ip_tables_names", "nat\nfilter\n"),
			"firewall", Unknown, "iptables-legacy -S"},
		"full table": {set("/proc/sys/net/netfilter/nf_conntrack_count", "65536"),
			"conntrack", Wrong, "nf_conntrack_max=131072"},
		"small table": {set("/proc/sys/net/netfilter/nf_conntrack_max", "16384"),
			"conntrack", Better, "nf_conntrack_max=65536"},
		"free clock": {func(m *Machine) { m.synced = func() (bool, error) { return false, nil } },
			"clock", Better, "timedatectl"},
		"few files": {set("/proc/self/limits", "Max open files  64  64 files\n"), "files", Wrong, "at most 64"},
		"some files": {set("/proc/self/limits", "Max open files  1000 1000 files\n"),
			"files", Better, "LimitNOFILE=65536"},
		"all files": {set("/proc/self/limits", "Max open files  unlimited unlimited files\n"),
			"files", Fine, "unlimited"},
		"no memory": {set("/proc/meminfo", "MemAvailable: 100000 kB\n"),
			"memory", Wrong, "97 MiB are free: the cache and the relay need 320"},
		"small group": {set("/sys/fs/cgroup/memory.max", "268435456\n"),
			"memory", Wrong, "256 MiB are free: the cache and the relay need 320"},
		"large group":    {set("/sys/fs/cgroup/memory.max", "max\n"), "memory", Fine, "1024 MiB are free"},
		"port in use":    {port(syscall.EADDRINUSE), "ports", Better, "sport = :443"},
		"port forbidden": {port(syscall.EACCES), "ports", Wrong, "CAP_NET_BIND_SERVICE"},
		"no address":     {port(syscall.EADDRNOTAVAIL), "ports", Wrong, "cannot assign"},
		"no keys": {func(m *Machine) { m.ReadKeys = func() error { return errors.New("status 503") } },
			"keys", Wrong, "status 503"},
		"unreached": {func(m *Machine) { m.Upstreams = []string{"moqt://192.0.2.1"} },
			"upstream", Wrong, "192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := fit()
			tt.change(m)
			f := of(t, m, tt.check)
			require.Equal(t, tt.want, f.Verdict, "%+v", f)
			require.Contains(t, f.Text+f.Effect+f.Advice, tt.text)
		})
	}
}

func TestCertificate(t *testing.T) {
	files := certtest.New(t).Issue(t)
	text, err := os.ReadFile(files.CA)
	require.NoError(t, err)
	issuer, now := x509.NewCertPool(), time.Now()
	require.True(t, issuer.AppendCertsFromPEM(text))
	for name, tt := range map[string]struct {
		at    time.Time
		roots *x509.CertPool
		cert  string
		want  Verdict
		text  string
	}{
		"soon over":    {now, issuer, files.Cert, Better, "until"},
		"over":         {now.Add(2 * time.Hour), issuer, files.Cert, Wrong, "expired"},
		"to come":      {time.Time{}.Add(-time.Hour), issuer, files.Cert, Wrong, "not yet valid"},
		"other issuer": {now, x509.NewCertPool(), files.Cert, Better, "unknown authority"},
		"long":         {now.AddDate(-1, 0, 0), issuer, files.Cert, Fine, "until"},
		"no file":      {now, issuer, files.Cert + "x", Wrong, "no such file"},
		"other key":    {now, issuer, files.CA, Wrong, "does not match"},
		"test instead": {now, issuer, "", Fine, "--dev"},
	} {
		m := fit()
		m.CertFile, m.KeyFile, m.now, m.roots = tt.cert, files.Key, tt.at, tt.roots
		f := of(t, m, "certificate")
		require.Equal(t, tt.want, f.Verdict, "%s: %+v", name, f)
		require.Contains(t, f.Text, tt.text)
	}
	m := fit()
	m.CertFile, m.KeyFile, m.now, m.roots = files.Cert, files.Key, now.AddDate(-1, 0, 0), issuer
	require.NoError(t, os.Chmod(files.Key, 0o644))
	require.Contains(t, of(t, m, "certificate").Text, "all may read the key")
	require.Equal(t, Finding{Check: "names", Verdict: Fine, Text: "relay.example"}, of(t, m, "names"))
	m.resolve = func(_ context.Context, host string) ([]string, error) { return nil, errors.New("no " + host) }
	require.Equal(t, "no relay.example", of(t, m, "names").Text)
	m.CertFile, m.ACME = "", []string{"relay.example"}
	require.Equal(t, "--acme gets one", of(t, m, "certificate").Text)
	require.Equal(t, "no relay.example", of(t, m, "names").Text)
}

// of returns the first finding of a check.
func of(t *testing.T, m *Machine, check string) Finding {
	found := Examine(t.Context(), m, false)
	i := slices.IndexFunc(found, func(f Finding) bool { return f.Check == check })
	require.GreaterOrEqual(t, i, 0, "no finding")
	return found[i]
}

// TestFamilies has the firewall asked only about the addresses at which the relay listens.
func TestFamilies(t *testing.T) {
	for listen, want := range map[string][]string{
		"[::]:443": {"IPv4", "IPv6"}, "0.0.0.0:443": {"IPv4"}, "192.0.2.1:443": {"IPv4"}, "[2001:db8::1]:443": {"IPv6"},
	} {
		m, asked := fit(), []string(nil)
		m.Ports = []Port{{"udp", netip.MustParseAddrPort(listen), ""}}
		m.firewall = func(p packet) (verdict, error) {
			asked = append(asked, p.family)
			return verdict{}, nil
		}
		require.Equal(t, Fine, of(t, m, "firewall").Verdict)
		require.Equal(t, want, asked, listen)
	}
}

func TestCluster(t *testing.T) {
	for greeting, want := range map[string]Finding{
		`INFO {"version":"2.15.2"}` + "\n": {Verdict: Fine, Text: "NATS 2.15.2"},
		"SSH-2.0\n":                        {Verdict: Wrong, Text: "not a NATS server"},
		"":                                 {Verdict: Wrong, Text: "no greeting"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = c.Write([]byte(greeting))
				_ = c.Close()
			}
		}()
		m := fit()
		m.Cluster = []string{l.Addr().String()}
		f := of(t, m, "cluster")
		require.Equal(t, want.Verdict, f.Verdict)
		require.Contains(t, f.Text, want.Text)
		require.NoError(t, l.Close())
	}
}
