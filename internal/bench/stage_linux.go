package bench

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/internal/lab"
	"sluice/transport"
)

// stage is the lab with all that runs need.
type stage struct {
	Config
	lab   *lab.Lab
	dir   string
	stats io.Closer // keeps the kernel counting the run time of eBPF programs
}

const relayPort = 4443

// openStage builds a lab with two hosts for subscribers: one of them may get a bottleneck.
func openStage(ctx context.Context, cfg Config) (_ *stage, err error) {
	s := &stage{Config: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return nil, err
	}
	if err := s.writeCertificate(); err != nil {
		return nil, err
	}
	if s.lab, err = lab.New(ctx, lab.Topology{Subscribers: 2, Seed: cfg.Seed}); err != nil {
		return nil, err
	}
	if s.stats, err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
		return nil, &lab.MissingError{What: "statistics of eBPF programs (Linux 5.8, CAP_SYS_ADMIN)", Err: err}
	}
	return s, nil
}

func (s *stage) close() (err error) {
	if s.stats != nil {
		err = s.stats.Close()
	}
	if s.lab != nil {
		err = errors.Join(err, s.lab.Close())
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

func (s *stage) certificate() string { return filepath.Join(s.dir, "cert.pem") }
func (s *stage) key() string         { return filepath.Join(s.dir, "key.pem") }

func (s *stage) writeCertificate() error {
	cert, _, err := transport.DevCertificate(lab.RelayName)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(s.certificate(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), 0o600),
		os.WriteFile(s.key(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
}

// command returns the words that start a relay.
func (s *stage) command(spec Spec, dir string) ([]string, error) {
	words, err := splitCommand(spec.Command)
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(relayPort)
	return expand(words, map[string]string{
		"addr": net.JoinHostPort("::", port), "host": "::", "port": port, "cert": s.certificate(), "key": s.key(), "dir": dir, "sluice": s.Sluice,
	})
}

// Niceness of load generators. On another machine none of them would take the processor from the relay, and none would wait for it: so the
// publisher, which needs little, comes first, and subscribers come last, but not behind a hog. Relay and hog have 0.
const (
	publisherNice  = -10
	subscriberNice = 10
)

// loadCommand returns the words that start a load generator.
func (s *stage) loadCommand(cfg LoadConfig, nice int) []string {
	b, err := json.Marshal(cfg)
	if err != nil {
		panic(err) // it has nothing that could not be marshalled
	}
	return []string{"nice", "-n", strconv.Itoa(nice), s.Program, "bench-load", string(b)}
}

// url is how a host reaches the relay.
func (s *stage) url(h *lab.Host) string {
	return "moqt://" + net.JoinHostPort(s.lab.Relay.Facing(h).IPv6.Addr().String(), strconv.Itoa(relayPort))
}

// now is the clock of captured packets.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("no monotonic clock: %v", err))
	}
	return time.Duration(t.Nano())
}
