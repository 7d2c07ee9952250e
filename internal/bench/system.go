package bench

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Spec is a relay to be measured.
type Spec struct {
	Name string
	// Command starts it, with these placeholders: {addr}, where it has to listen, and its parts {host} and {port}; {cert} and {key}, PEM
	// files for TLS; {dir}, a directory of its own for this run; {sluice}, the program sluice. Words may be quoted with ' or ".
	Command string
	// Version is shown; default: what it says of itself in a session.
	Version string
	// Kinds are those of the scenarios that it takes part in. Default: all.
	Kinds []string
	// Metrics is where it serves metrics of Sluice, "host:port" in its own network, or "".
	Metrics string
}

// Names of the ways in which Sluice itself is measured.
const (
	FastPath     = "sluice"
	SlowPath     = "sluice-userspace"
	PriorityDrop = "sluice-drop"
)

// Metrics of Sluice: QUIC packets with media, by who sent them.
const (
	kernelPackets = "sluice_fastpath_media_packets_total"
	userPackets   = "sluice_media_packets_total"
)

const metricsAddress = "127.0.0.1:4480"

// Sluice returns the ways in which a version of Sluice itself is measured: with the fast path, without it, and, for scenarios with a bottleneck, with
// priority drop.
func Sluice(version string) []Spec {
	spec := func(name, flags string, kinds ...string) Spec {
		const command = "{sluice} relay --listen {addr} --tls-cert {cert} --tls-key {key} --drain 1s --log-level warn --admin " + metricsAddress + " "
		return Spec{Name: name, Command: command + flags, Version: "sluice " + version, Kinds: kinds, Metrics: metricsAddress}
	}
	return []Spec{
		spec(FastPath, "--fastpath on"),
		spec(SlowPath, "--fastpath off"),
		spec(PriorityDrop, "--fastpath on --drop priority", KindCongestion),
	}
}

func (s Spec) validate() error {
	if s.Name == "" || s.Command == "" {
		return errors.New("a relay needs a name and a command")
	}
	words, err := splitCommand(s.Command)
	if err != nil {
		return fmt.Errorf("relay %s: %w", s.Name, err)
	}
	everything := make(map[string]string)
	for _, p := range placeholders {
		everything[p] = p
	}
	if _, err := expand(words, everything); err != nil {
		return fmt.Errorf("relay %s: %w", s.Name, err)
	}
	if !strings.Contains(s.Command, "{addr}") && !strings.Contains(s.Command, "{port}") {
		return fmt.Errorf("relay %s: its command has neither {addr} nor {port}, so it cannot be told where to listen", s.Name)
	}
	return nil
}

func (s Spec) takesPart(kinds []string) bool {
	return len(s.Kinds) == 0 || slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(s.Kinds, k) })
}

// splitCommand splits at spaces that are not quoted.
func splitCommand(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	within := false
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, within = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if within {
				words = append(words, word.String())
				word.Reset()
			}
			within = false
		default:
			word.WriteRune(r)
			within = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the command %q ends within %c", s, quote)
	}
	if within {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("the command is empty")
	}
	return words, nil
}

var (
	placeholders = []string{"addr", "host", "port", "cert", "key", "dir", "sluice"}
	placeholder  = regexp.MustCompile(`\{([a-z]+)\}`)
)

// expand replaces placeholders in the words of a command.
func expand(words []string, values map[string]string) ([]string, error) {
	var err error
	expanded := make([]string, len(words))
	for i, w := range words {
		expanded[i] = placeholder.ReplaceAllStringFunc(w, func(p string) string {
			value, ok := values[strings.Trim(p, "{}")]
			if !ok {
				err = fmt.Errorf("there is no placeholder %s; there are {%s}", p, strings.Join(placeholders, "}, {"))
			}
			return value
		})
	}
	return expanded, err
}
