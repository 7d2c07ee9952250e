package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
	"sluice/lab"
	"sluice/lab/bench/report"
	"sluice/lab/bench/result"
	"sluice/lab/bench/system"
	"sluice/lab/labtest"
)

// sshdConfig lets in whoever has the test's key.
const sshdConfig = `HostKey %[1]s/key
AuthorizedKeysFile %[1]s/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
`

// sshConfig logs in to a host of the lab, where an sshd serves this connection alone.
const sshConfig = `Host %[2]s
	HostName %[3]s
	HostKeyAlias sluice-test
	User root
	IdentityFile %[1]s/key
	IdentitiesOnly yes
	StrictHostKeyChecking no
	UserKnownHostsFile %[1]s/known
	LogLevel ERROR
	ProxyCommand nsenter --net=%[4]s %[5]s -i -f %[1]s/sshd
`

// startSSH makes a configuration for ssh that reaches the hosts of a lab by their names.
func startSSH(t *testing.T, l *lab.Lab) (config string) {
	t.Helper()
	programs := make(map[string]string)
	for _, name := range []string{"ssh", "ssh-keygen", "sshd", "nsenter"} {
		path, err := exec.LookPath(name)
		if err != nil && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
			t.Skip("needs " + name + " (openssh-server)")
		}
		require.NoError(t, err)
		programs[name] = path
	}
	require.NoError(t, os.MkdirAll("/run/sshd", 0o755), "sshd wants it")
	dir := t.TempDir()
	out, err := exec.Command(programs["ssh-keygen"], "-q", "-t", "ed25519", "-N", "", "-f", dir+"/key").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(dir+"/sshd", fmt.Appendf(nil, sshdConfig, dir), 0o600))
	status, err := l.Status()
	require.NoError(t, err)
	var b bytes.Buffer
	for i, h := range l.Hosts() {
		if len(h.Devices) == 0 {
			continue // the network between the hosts
		}
		address := h.Devices[0].IPv6.Addr()
		fmt.Fprintf(&b, sshConfig, dir, h.Name, address, status.Hosts[i].Namespace, programs["sshd"])
	}
	config = filepath.Join(dir, "ssh")
	require.NoError(t, os.WriteFile(config, b.Bytes(), 0o600))
	return config
}

// A bench on machines that are reached by SSH counts the same as one in a lab, describes the machines, and leaves
// nothing behind.
func TestBenchHosts(t *testing.T) {
	thorough.Only(t)
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	config, out := startSSH(t, l), filepath.Join(t.TempDir(), "out")
	before, err := filepath.Glob("/tmp/sluice-bench-*")
	require.NoError(t, err)
	relay := l.Relay.Device("up").IPv6.Addr().String() + "," + l.Relay.Device("down").IPv6.Addr().String()
	text, err := exec.CommandContext(t.Context(), "sluice-lab", "bench", "--hosts", "pub=pub,relay=relay,sub=sub1",
		"--relay-address", relay, "--ssh-config", config, "--out", out, "--quick", "--duration", "1s",
		"--scenario", "delay,cpu,syscalls", "--subscribers", "2").CombinedOutput()
	t.Logf("%s", text)
	require.NoError(t, err)
	r, err := result.ReadFile(filepath.Join(out, "results.json"))
	require.NoError(t, err)
	require.Len(t, r.Scenarios, 4)
	for _, s := range r.Scenarios {
		require.Len(t, s.Runs, 2)
		for _, run := range s.Runs {
			checkRun(t, s, run)
		}
	}
	var machines []string
	for _, h := range r.Hosts {
		machines = append(machines, h.Role+" "+h.Device.Name)
		require.NotEmpty(t, h.Machine.Kernel)
		require.Equal(t, "off", h.Machine.Offloads["generic-receive"])
	}
	require.Equal(t, []string{"pub eth0", "relay up", "sub eth0"}, machines)
	require.Equal(t, system.FastPath, r.Systems[0].Name)
	require.NoError(t, report.Write(t.TempDir(), r))
	after, err := filepath.Glob("/tmp/sluice-bench-*")
	require.NoError(t, err)
	require.Subset(t, before, after, "nothing is left; other benches may come to their end")
}
