package trial

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/internal/bench/load"
	"sluice/internal/bench/system"
	"sluice/internal/lab"
	"sluice/transport"
)

// Stage is the lab in which trials run, one after the other.
type Stage struct {
	Lab *lab.Lab

	programs Programs
	dir      string
	// programNames are the names of eBPF programs. Nobody but the trial that runs uses them.
	programNames map[ebpf.ProgramID]string
	stats        io.Closer // the kernel counts the run time of eBPF programs until it is closed
}

const relayPort = 4443

// OpenStage builds a lab with two hosts for subscribers: one of them may get a bottleneck. Errors that mean "this
// machine cannot do it" are a *[lab.MissingError].
func OpenStage(ctx context.Context, programs Programs, seed uint64) (_ *Stage, err error) {
	s := &Stage{programs: programs, programNames: make(map[ebpf.ProgramID]string)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return nil, err
	}
	if err := s.writeCertificate(); err != nil {
		return nil, err
	}
	if s.Lab, err = lab.New(ctx, lab.Topology{Subscribers: 2, Seed: seed}); err != nil {
		return nil, err
	}
	if s.stats, err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
		return nil, &lab.MissingError{What: "statistics of eBPF programs (Linux 5.8, CAP_SYS_ADMIN)", Err: err}
	}
	return s, nil
}

// Close ends the lab.
func (s *Stage) Close() (err error) {
	if s.stats != nil {
		err = s.stats.Close()
	}
	if s.Lab != nil {
		err = errors.Join(err, s.Lab.Close())
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

func (s *Stage) certificate() string { return filepath.Join(s.dir, "cert.pem") }
func (s *Stage) key() string         { return filepath.Join(s.dir, "key.pem") }

func (s *Stage) writeCertificate() error {
	cert, _, err := transport.DevCertificate(lab.RelayName)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	return errors.Join(
		writePEM(s.certificate(), "CERTIFICATE", cert.Certificate[0]),
		writePEM(s.key(), "PRIVATE KEY", key))
}

func writePEM(path, kind string, content []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}

// Offloads returns which offload features the lab's devices have.
func (s *Stage) Offloads() (map[string]string, error) {
	return readOffloads(s.Lab.Relay, s.Lab.Relay.Devices[0].Name)
}

// place returns the values of the placeholders of a relay's command. dir is the relay's own directory.
func (s *Stage) place(dir string) system.Place {
	return system.Place{
		Host: "::", Port: relayPort, Cert: s.certificate(), Key: s.key(), Dir: dir, Sluice: s.programs.Sluice,
	}
}

// Niceness of load generators. On machines of their own they would neither take the processor from the relay nor wait
// for it. So here the publisher, which needs little, comes first, and subscribers come last, except when there is a
// hog. The relay and the hog have 0.
const (
	publisherNice  = -10
	subscriberNice = 10
)

// loadCommand returns the words that start a load generator.
func (s *Stage) loadCommand(cfg load.GeneratorConfig, nice int) []string {
	b, err := json.Marshal(cfg)
	if err != nil {
		panic(err) // all its fields can be marshalled
	}
	return []string{"nice", "-n", strconv.Itoa(nice), s.programs.Generator, "bench-load", string(b)}
}

// url returns the URL under which a host reaches the relay.
func (s *Stage) url(h *lab.Host) string {
	return "moqt://" + net.JoinHostPort(s.Lab.Relay.Facing(h).IPv6.Addr().String(), strconv.Itoa(relayPort))
}
