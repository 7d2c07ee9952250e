package bench

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
)

// peers are the relays of others that speak MoQT draft 18 with Sluice's publisher and subscribers. internal/bench/install-peers has their versions.
var peers = []Spec{
	{Name: "moq-relay-ietf", Command: "moq-relay-ietf --bind {addr} --tls-cert {cert} --tls-key {key} --coordinator-file {dir}/coordinator.json"},
	{Name: "moq-relay", Command: "moq-relay --listen {addr} --listen-tls-cert {cert} --listen-tls-key {key} --auth-public '**'"},
}

// PeerNames are the names that Peer knows.
func PeerNames() []string {
	var out []string
	for _, p := range peers {
		out = append(out, p.Name)
	}
	return out
}

// Peer is a relay that internal/bench/install-peers has installed in a directory, or else one in PATH.
func Peer(name, dir string) (Spec, error) {
	i := slices.IndexFunc(peers, func(p Spec) bool { return p.Name == name })
	if i < 0 {
		return Spec{}, fmt.Errorf("there is no peer %q; there are %s. Others: --relay-cmd", name, strings.Join(PeerNames(), ", "))
	}
	spec := peers[i]
	program, arguments, _ := strings.Cut(spec.Command, " ")
	path := filepath.Join(dir, program)
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath(program); err != nil {
			return Spec{}, fmt.Errorf("%s is neither in %s nor in PATH: install it with make bench-peers", program, dir)
		}
	}
	if strings.ContainsAny(path, `'"{}`) {
		return Spec{}, fmt.Errorf("%s: a path with quotes or braces cannot be part of a command", path)
	}
	spec.Command, spec.Version = "'"+path+"' "+arguments, programVersion(path)
	return spec, nil
}

// versionTime is how long a program may take to say its version.
const versionTime = 5 * time.Second

// programVersion is what a program says when it is asked for its version, or else what Cargo has noted of its installation; "" if neither.
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

// installedCrate is a line of Cargo's list of what it installed: "crate 1.2.3 (registry)" = ["program"].
var installedCrate = regexp.MustCompile(`(?m)^"(\S+ \S+) \(.*\)" = \[(.*)\]$`)

// crateVersion is the crate and its version that Cargo has installed a program from; "" if it has not.
func crateVersion(installed, program string) string {
	for _, m := range installedCrate.FindAllStringSubmatch(installed, -1) {
		if strings.Contains(m[2], strconv.Quote(program)) {
			return m[1]
		}
	}
	return ""
}
