package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine is a machine as the checks see it.
type Machine struct {
	Config
	now        time.Time
	roots      *x509.CertPool // nil: the system's
	processors int
	read       func(path string) ([]byte, error)
	features   func(device string) (map[string]bool, error) // as ethtool names them
	synced     func() (bool, error)                         // the clock
	firewall   func(packet) (verdict, error)
	listen     func(network, addr string) (io.Closer, error)
	resolve    func(ctx context.Context, host string) ([]string, error)
}

// This returns the machine that the process runs on.
func This(c Config) *Machine {
	return &Machine{
		Config: c, now: time.Now(), processors: runtime.NumCPU(), read: os.ReadFile,
		features: deviceFeatures, synced: synced, firewall: askNftables,
		listen: listen, resolve: net.DefaultResolver.LookupHost,
	}
}

func listen(network, addr string) (io.Closer, error) {
	if network == "udp" {
		return net.ListenPacket(network, addr)
	}
	return net.Listen(network, addr)
}

// word returns the text of a file of /proc or /sys without the space around it.
func (m *Machine) word(path string) (string, error) {
	text, err := m.read(path)
	return strings.TrimSpace(string(text)), err
}

func (m *Machine) number(path string) (uint64, error) {
	text, err := m.word(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 10, 64)
}

// field returns the first word behind a name that begins a line.
func (m *Machine) field(path, name string) (string, error) {
	text, err := m.read(path)
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut("\n"+string(text), "\n"+name)
	if words := strings.Fields(rest); ok && len(words) > 0 {
		return words[0], nil
	}
	return "", fmt.Errorf("%s: no %s", path, name)
}
