package system

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/lab/bench/result"
)

// peers are relays of others that speak MoQT draft 18 with Sluice's publisher and subscribers, or RTSP. The script
// lab/bench/install-peers has their versions.
var peers = []Spec{
	// Its coordinator's file says at which relay a namespace is: bench/media, which the load generators use.
	{Name: "moq-relay-ietf", Command: "moq-relay-ietf --bind {addr} --tls-cert {cert} --tls-key {key}" +
		" --coordinator-file {dir}/coordinator.json", Further: "--tls-disable-verify",
		Files: map[string]string{
			"coordinator.json": `{"namespaces": {"": {"62656e6368.6d65646961": "{upstream}"}}}`,
		}},
	// Its best setting is a QUIC worker pinned to each core, with a socket of its own. By default all share a runtime.
	{Name: "moq-relay", Command: "moq-relay --listen {addr} --listen-tls-cert {cert} --listen-tls-key {key}" +
		" --auth-public ** --runtime-workers {cores}", OneSubgroup: true,
		Further: "--cluster-connect {upstream} --connect-tls-insecure"},
	// It serves RTSP only, with the defaults of its configuration.
	{Name: "mediamtx", Command: "mediamtx", Kinds: []string{result.KindRTSP}, RTSP: "{dir}/mediamtx.yml",
		Files: map[string]string{"mediamtx.yml": mediaMTX}},
}

// mediaMTX is the configuration of MediaMTX, without protocols other than RTSP.
const mediaMTX = `
logLevel: warn
rtmp: no
hls: no
webrtc: no
srt: no
moq: no
rtspTransports: [udp, tcp]
rtspAddress: '{rtsp}'
rtpAddress: '{rtp}'
rtcpAddress: '{rtcp}'
paths:
  all_others:
`

// PeerNames returns the names that Peer knows.
func PeerNames() []string {
	var out []string
	for _, p := range peers {
		out = append(out, p.Name)
	}
	return out
}

// Peer returns a relay that lab/bench/install-peers has installed in a directory, or else one in PATH.
func Peer(name, dir string) (Spec, error) {
	i := slices.IndexFunc(peers, func(p Spec) bool { return p.Name == name })
	if i < 0 {
		return Spec{}, fmt.Errorf("there is no peer %q: choose from %s, or use --relay-cmd",
			name, strings.Join(PeerNames(), ", "))
	}
	spec := peers[i]
	path, err := installed(name, dir)
	if err != nil {
		return Spec{}, err
	}
	spec.Program, spec.Version = path, programVersion(path)
	return spec, nil
}

// installed returns the path of a program in a directory, or else in PATH.
func installed(name, dir string) (string, error) {
	path, err := exec.LookPath(filepath.Join(dir, name))
	if err != nil {
		path, err = exec.LookPath(name)
	}
	if err != nil {
		return "", fmt.Errorf("%s is neither in %s nor in PATH: install it with make bench-peers", name, dir)
	}
	return path, nil
}

// versionTime is how long a program may take to print its version.
const versionTime = 5 * time.Second

// programVersion returns a program's output with --version, or else the version that Cargo has installed; "" if neither
// is known.
func programVersion(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), versionTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, path, "--version").Output(); err == nil {
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return line
	}
	installed, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(path)), ".crates.toml"))
	return crateVersion(string(installed), filepath.Base(path))
}

// installedCrate matches a line of Cargo's list of installed programs: "crate 1.2.3 (registry)" = ["program"].
var installedCrate = regexp.MustCompile(`(?m)^"(\S+ \S+) \(.*\)" = \[(.*)\]$`)

// crateVersion returns the name and the version of the crate that Cargo has installed a program from; "" if there is
// none.
func crateVersion(installed, program string) string {
	for _, m := range installedCrate.FindAllStringSubmatch(installed, -1) {
		if strings.Contains(m[2], strconv.Quote(program)) {
			return m[1]
		}
	}
	return ""
}
