package hosts

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/lab/bench"
	"sluice/lab/bench/broker"
	"sluice/lab/bench/trial"
)

// farSSH stands in for ssh: each machine is this one. It writes down its arguments, without the options.
const farSSH = `#!/bin/sh
while [ "$1" != -- ]; do
	case $1 in
	-R) ln -s "${2#*:}" "${2%%:*}"; shift ;;
	-G) echo "hostname 127.0.0.1"; exit ;;
	esac
	shift
done
[ "$2" != gone ] || { echo "no route to $2" >&2; exit 255; }
echo "$2: $3" >>"$(dirname "$0")/asked"
exec sh -c "$3"
`

// farBench stands in for sluice-lab on the machines. The relay's asks for one load generator.
const farBench = `#!/bin/sh
case $1 in
bench-describe) echo '{"role":"","device":{"name":"eth0","queues":4}}' ;;
bench-load) read command; echo "{\"peer\":\"$command\"}" ;;
bench-relay)
	read config
	mkdir -p "$2"
	echo "$config" >%DIR%/config
	echo 1/1 measured
	[ -e "$(dirname "$0")/sluice" ] && echo '{"format":1,"commit":"far"}' >"$2/results.json"
	exit %EXIT% ;;
esac
`

// stand makes the stand-ins, and returns a configuration that uses them.
func stand(t *testing.T, exit string) (Config, string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
		return path
	}
	write("ssh", farSSH)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	programs := trial.Programs{
		Generator: write("sluice-lab",
			strings.NewReplacer("%EXIT%", exit, "%DIR%", dir).Replace(farBench)), Sluice: write("sluice", ""),
	}
	return Config{
		Bench: bench.RunConfig{
			Programs: programs, Machines: new(trial.Machines),
		},
		Hosts:  Hosts{"pub": "a", "relay": "b", "sub": "c"},
		Output: new(bytes.Buffer),
	}, dir
}

// A bench copies, describes, measures, fetches and cleans up.
func TestRun(t *testing.T) {
	cfg, dir := stand(t, "0")
	found, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, "far", found.Commit)
	require.Equal(t, "pub: copy to a\nrelay: copy to b\nsub: copy to c\n1/1 measured\n",
		cfg.Output.(*bytes.Buffer).String())
	config, err := os.ReadFile(filepath.Join(dir, "config"))
	require.NoError(t, err)
	require.Contains(t, string(config), `"up":"127.0.0.1","down":"127.0.0.1"`, "where ssh connects to")
	require.Equal(t, 3, strings.Count(string(config), `"name":"eth0"`), "the machines are described")
	require.Contains(t, string(config), `"role":"relay"`)
	checkClean(t, dir)
}

// checkClean checks that each machine's directory is gone.
func checkClean(t *testing.T, dir string) {
	t.Helper()
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	require.NoError(t, err)
	removed := 0
	for line := range strings.Lines(string(asked)) {
		if _, words, ok := strings.Cut(line, "'rm' '-rf' '"); ok {
			removed++
			require.NoDirExists(t, strings.TrimSuffix(words, "'\n"))
		}
	}
	require.Equal(t, 3, removed)
}

// A bench that fails says why, and leaves nothing behind; its measurements count.
func TestRunFails(t *testing.T) {
	cfg, dir := stand(t, "3")
	found, err := Run(t.Context(), cfg)
	require.ErrorContains(t, err, "b (relay): bench: exit status 3")
	require.Equal(t, "far", found.Commit)
	checkClean(t, dir)

	cfg, _ = stand(t, "1")
	cfg.Bench.Programs.Sluice = cfg.Bench.Programs.Generator // so there are no results
	found, err = Run(t.Context(), cfg)
	require.EqualError(t, err, "b (relay): bench: exit status 1")
	require.Nil(t, found)

	cfg, _ = stand(t, "0")
	cfg.Hosts["sub"] = "gone"
	_, err = Run(t.Context(), cfg)
	require.EqualError(t, err, "gone (sub): uname: exit status 255: no route to gone")
}

// Load generators are started for the relay's machine.
func TestStart(t *testing.T) {
	cfg, _ := stand(t, "0")
	r := &run{Config: cfg, machines: make(map[broker.Role]*machine)}
	m := &machine{options: options("file"), role: "pub", host: "a",
		home: filepath.Dir(cfg.Bench.Programs.Generator)}
	require.Equal(t, "file", m.options[len(m.options)-1])
	r.machines["pub"] = m
	var out bytes.Buffer
	require.NoError(t, r.start(t.Context(), broker.Request{Role: "pub"}, strings.NewReader("go\n"), &out))
	require.Equal(t, "{\"peer\":\"go\"}\n", out.String())
	m.host = "gone"
	err := r.start(t.Context(), broker.Request{Role: "pub"}, strings.NewReader("go\n"), &out)
	require.EqualError(t, err, "gone (pub): load generator: exit status 255: no route to gone")
}

// Another machine must run our programs.
func TestPrepare(t *testing.T) {
	stand(t, "0")
	m := &machine{options: options(""), role: "pub", host: "a"}
	require.ErrorContains(t, m.prepare(t.Context(), "Plan9 mips"),
		"must be Plan9 mips, for which this program was built")
	require.NoError(t, m.cleanUp(t.Context()), "there is nothing to clean up")
	m.sudo = []string{"sudo", "-n"}
	require.Equal(t, []string{"sudo", "-n", "rm"}, m.asRoot("rm"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.run(ctx, nil, "true")
	require.ErrorIs(t, err, context.Canceled)
}

func TestDescribe(t *testing.T) {
	h, err := Describe("127.0.0.1")
	require.NoError(t, err)
	loopback, err := net.InterfaceByIndex(1)
	require.NoError(t, err)
	require.Equal(t, loopback.Name, h.Device.Name)
	require.Equal(t, loopback.MTU, h.Device.MTU)
	require.Positive(t, h.Machine.Cores)
	require.Contains(t, h.Machine.Offloads, "generic-receive")
	_, err = Describe("nowhere")
	require.ErrorContains(t, err, "find a route to nowhere")
}
