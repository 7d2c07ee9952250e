package system

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"sluice/lab/bench/result"
)

// Spec is a relay to measure.
type Spec struct {
	Name string
	// Command starts it, with these placeholders: {addr}, where it must listen, and its parts {host} and {port}; {cert}
	// and {key}, PEM files for TLS; {dir}, a directory of its own for this run; {cores}, the number of its processors;
	// {sluice}, the program sluice. Spaces divide its words.
	Command string
	// Program is the path of the program. Default: the first word of Command.
	Program string
	// Further are words that follow Command for each relay of a chain but the first. They make it subscribe at its
	// predecessor, whose URL is {upstream}. "" for a relay that cannot do it.
	Further string
	// RTSP are words that follow Command where clients use RTSP. They make it serve RTSP at {rtsp}, RTP by UDP at {rtp}
	// and RTCP at {rtcp}. "" for a relay that does not.
	RTSP string
	// Files are written into {dir} before the relay starts, by name. They may have placeholders, too. One that names
	// {upstream} is only for those relays of a chain that have one.
	Files map[string]string
	// Version is for the report. Default: the implementation that the relay names in a session.
	Version string
	// Kinds are the kinds of scenarios that it takes part in. Default: all.
	Kinds []string
	// OneSubgroup is set for a relay that forwards only one subgroup of each group: its video has no layers.
	OneSubgroup bool
	// Metrics is where Sluice serves its metrics, "host:port" in its own network; "" for other relays.
	Metrics string
	// Build is a directory with other builds of the programs sluice and sluice-lab: {sluice} is from there, and so are
	// the load generators. Default: those that measure the other relays.
	Build string
}

// Names of the variants of Sluice.
const (
	FastPath = "sluice"
	SlowPath = "sluice-userspace"
	NoDrop   = "sluice-no-drop"
	BBR      = "sluice-bbr"

	// unprotectedSuffix follows the names of variants without packet protection.
	unprotectedSuffix = "-unprotected"
)

// Metrics of Sluice: QUIC packets with media that the kernel and that user space sent; RTP packets that both sent, and
// of these the kernel's.
const (
	KernelPackets    = "sluice_fastpath_media_packets_total"
	UserPackets      = "sluice_media_packets_total"
	RTPPackets       = "sluice_rtsp_sent_packets_total"
	KernelRTPPackets = "sluice_rtsp_kernel_packets_total"
)

const adminAddress = "127.0.0.1:4480"

// Sluice returns the variants of a version of Sluice: with the fast path, without it and, in scenarios with a
// bottleneck, without a drop policy and with BBR. All subscribers have one address.
func Sluice(version string) []Spec {
	spec := func(name, flags string, kinds ...string) Spec {
		const command = "{sluice} relay --listen {addr} --tls-cert {cert} --tls-key {key} --drain 1s --log-level warn" +
			" --admin " + adminAddress + " --admin-pprof --quota-per-address sessions=16384 "
		return Spec{
			Name: name, Command: command + flags, Version: "sluice " + version, Kinds: kinds,
			Further: "--upstream {upstream} --upstream-tls-disable-verify",
			Metrics: adminAddress,
		}
	}
	return []Spec{
		withRTSP(spec(FastPath, "--fastpath on")),
		withRTSP(spec(SlowPath, "--fastpath off")),
		spec(NoDrop, "--fastpath on --drop none", result.KindCongestion),
		spec(BBR, "--fastpath on --congestion bbr", result.KindCongestion),
	}
}

// withRTSP returns the variant as one that clients can use by RTSP, too.
func withRTSP(s Spec) Spec {
	s.RTSP = "--rtsp {rtsp} --rtsp-rtp {rtp}"
	return s
}

// Unprotected returns the variants of a version of Sluice without packet protection, with the fast path and without it.
// build is the directory of the programs with the build tag unprotected.
func Unprotected(version, build string) []Spec {
	variants := Sluice(version)[:2]
	for i := range variants {
		s := &variants[i]
		s.Name, s.Version, s.Build = s.Name+unprotectedSuffix, s.Version+", without packet protection", build
		s.Kinds, s.RTSP = []string{result.KindDelay, result.KindCPU, result.KindCapacity}, ""
	}
	return variants
}

// listens matches the placeholders for where a relay listens.
var listens = regexp.MustCompile(`\{(addr|port|rtsp)\}`)

// Validate returns an error if the relay cannot be started with its command.
func (s Spec) Validate() error {
	if s.Name == "" || s.Command == "" {
		return errors.New("a relay needs a name and a command")
	}
	for _, p := range []Place{{}, {Upstream: "moqt://relay"}, {RTSP: true}} {
		if _, err := s.Words(p); err != nil {
			return fmt.Errorf("relay %s: %w", s.Name, err)
		}
	}
	all := strings.Join(append(slices.Collect(maps.Values(s.Files)), s.Command), " ")
	if !listens.MatchString(all) {
		return fmt.Errorf("relay %s: its command must have {addr} or {port}, where the relay must listen", s.Name)
	}
	return nil
}

// TakesPart reports whether the relay takes part in scenarios of one of these kinds.
func (s Spec) TakesPart(kinds []string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool {
		if kind == result.KindRTSP {
			return s.RTSP != ""
		}
		return len(s.Kinds) == 0 || slices.Contains(s.Kinds, kind)
	})
}

// Place holds the values of the placeholders of a command.
type Place struct {
	Cert, Key string // files
	Dir       string
	Sluice    string // the program
	Upstream  string // URL of the relay before it in a chain; "" for the first relay
	RTSP      bool   // clients use RTSP
}

// host is where relays listen.
const host = "::"

// Ports of relays.
const (
	Port     = 4443 // of MoQT
	RTSPPort = 8554 // TCP
	RTPPort  = 8000 // UDP; RTCP has the next one
)

func (p Place) values() map[string]string {
	port := strconv.Itoa(Port)
	values := map[string]string{
		"addr": net.JoinHostPort(host, port), "host": host, "port": port,
		"cert": p.Cert, "key": p.Key, "dir": p.Dir, "sluice": p.Sluice, "cores": strconv.Itoa(runtime.NumCPU()),
	}
	if p.Upstream != "" {
		values["upstream"] = p.Upstream
	}
	if p.RTSP {
		for name, port := range map[string]int{"rtsp": RTSPPort, "rtp": RTPPort, "rtcp": RTPPort + 1} {
			values[name] = net.JoinHostPort(host, strconv.Itoa(port))
		}
	}
	return values
}

// Words returns the words of the command that starts the relay in a place.
func (s Spec) Words(p Place) ([]string, error) {
	command := s.Command
	if p.Upstream != "" {
		command += " " + s.Further
	}
	if p.RTSP {
		command += " " + s.RTSP
	}
	words, err := expand(strings.Fields(command), p.values())
	if s.Program != "" {
		words[0] = s.Program
	}
	return words, err
}

// WriteFiles writes the files that the relay needs in a place.
func (s Spec) WriteFiles(p Place) error {
	for name, content := range s.Files {
		if p.Upstream == "" && strings.Contains(content, "{upstream}") {
			continue
		}
		text, err := expand([]string{content}, p.values())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(text[0]), 0o600); err != nil {
			return err
		}
	}
	return nil
}

var placeholder = regexp.MustCompile(`\{([a-z]+)\}`)

// expand replaces placeholders in the words of a command.
func expand(words []string, values map[string]string) ([]string, error) {
	var err error
	expanded := make([]string, len(words))
	for i, w := range words {
		expanded[i] = placeholder.ReplaceAllStringFunc(w, func(p string) string {
			value, ok := values[strings.Trim(p, "{}")]
			if !ok {
				known := slices.Sorted(maps.Keys(values))
				err = fmt.Errorf("there is no placeholder %s; there are {%s}", p, strings.Join(known, "}, {"))
			}
			return value
		})
	}
	return expanded, err
}
