package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// peers are the relays of others that speak MoQT draft 18 with Sluice's publisher and subscribers. bench/install-peers has their versions.
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

// Peer is a relay that bench/install-peers has installed in a directory, or else one in PATH.
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
	spec.Command = "'" + path + "' " + arguments
	return spec, nil
}
