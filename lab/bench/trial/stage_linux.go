package trial

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/lab"
	"sluice/lab/bench/system"
	"sluice/transport"
)

// Stage is where trials run, one after the other.
type Stage struct {
	Lab *lab.Lab // nil if it has machines of their own

	site     site
	programs Programs
	dir      string
	// programNames are the names of eBPF programs. Nobody but the trial that runs uses them.
	programNames map[ebpf.ProgramID]string
	stats        io.Closer // the kernel counts the run time of eBPF programs until it is closed
}

// MaxRelays is the length of the longest chain.
const MaxRelays = 4

// OpenStage builds a lab with a number of hosts for subscribers: each may get a bottleneck of its own. Errors that mean
// "this machine cannot do it" are a *[lab.MissingError].
func OpenStage(ctx context.Context, programs Programs, hosts int, seed uint64) (*Stage, error) {
	return openStage(programs, func(s *Stage) (err error) {
		topology := lab.Topology{Relays: MaxRelays, Subscribers: hosts, Seed: seed}
		if s.Lab, err = lab.New(ctx, topology); err == nil {
			s.site = &labSite{s.Lab}
		}
		return err
	})
}

// OpenMachines uses machines of their own. This one is the relay's.
func OpenMachines(programs Programs, machines Machines) (*Stage, error) {
	return openStage(programs, func(s *Stage) error {
		devices, err := devicesOf(machines.Up, machines.Down)
		s.site = &machineSite{machines, devices}
		return err
	})
}

func openStage(programs Programs, prepare func(*Stage) error) (_ *Stage, err error) {
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
	if err := prepare(s); err != nil {
		return nil, err
	}
	if s.stats, err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
		return nil, &lab.MissingError{What: "statistics of eBPF programs (Linux 5.8, CAP_SYS_ADMIN)", Err: err}
	}
	return s, nil
}

// devicesOf returns the devices of this machine that have some addresses.
func devicesOf(addresses ...string) (names []string, err error) {
	for _, address := range addresses {
		d, err := DeviceOf(address)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return names, nil
}

// DeviceOf returns the device of this machine that has an address.
func DeviceOf(address string) (net.Interface, error) {
	devices, err := net.Interfaces()
	if err != nil {
		return net.Interface{}, err
	}
	for _, d := range devices {
		assigned, _ := d.Addrs() // a device that is gone has none
		for _, a := range assigned {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().WithZone("").String() == address {
				return d, nil
			}
		}
	}
	return net.Interface{}, fmt.Errorf("no device of this machine has the address %s", address)
}

// Close ends the lab.
func (s *Stage) Close() (err error) {
	if s.stats != nil {
		err = s.stats.Close()
	}
	if s.site != nil {
		err = errors.Join(err, s.site.close())
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

// Offloads returns which offload features the relay's first device has.
func (s *Stage) Offloads() (map[string]string, error) { return s.site.offloads() }

// place returns the values of the placeholders of a relay's command. dir is the relay's own directory.
func (s *Stage) place(spec system.Spec, relay int, dir string) system.Place {
	p := system.Place{Cert: s.certificate(), Key: s.key(), Dir: dir, Sluice: s.programsFor(spec).Sluice}
	if relay > 0 {
		p.Upstream = relayURL(s.site.upstream(relay))
	}
	return p
}

// programsFor returns the programs that a trial of a system starts.
func (s *Stage) programsFor(spec system.Spec) Programs {
	if spec.Build == "" {
		return s.programs
	}
	in := func(program string) string { return filepath.Join(spec.Build, filepath.Base(program)) }
	return Programs{Sluice: in(s.programs.Sluice), Generator: in(s.programs.Generator)}
}

// Niceness of load generators. On machines of their own they would neither take the processor from the relay nor wait
// for it. So here the publisher, which needs little, comes first, and subscribers come last, except when there is a
// hog. The relay and the hog have 0.
const (
	publisherNice  = -10
	subscriberNice = 10
)

// niceness returns the words before a command that give it a niceness.
func niceness(nice int) []string { return []string{"nice", "-n", strconv.Itoa(nice)} }

// programUses returns the run times of all eBPF programs, which the kernel counts while a Stage is open.
func (s *Stage) programUses() (map[ebpf.ProgramID]ProgramUse, error) {
	first, err := ingressPrograms()
	if err != nil {
		return nil, err
	}
	uses := make(map[ebpf.ProgramID]ProgramUse)
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return uses, nil
		}
		if err != nil {
			return nil, err
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was unloaded in the meantime
		}
		if err != nil {
			return nil, err
		}
		use, err := s.programUse(id, p)
		use.Within = p.Type() == ebpf.SchedCLS && !first[id]
		p.Close()
		if err != nil {
			return nil, err
		}
		uses[id] = use
	}
}

func (s *Stage) programUse(id ebpf.ProgramID, p *ebpf.Program) (ProgramUse, error) {
	stats, err := p.Stats()
	if err != nil {
		return ProgramUse{}, err
	}
	if _, known := s.programNames[id]; !known {
		info, err := p.Info()
		if err != nil {
			return ProgramUse{}, err
		}
		s.programNames[id] = info.Name
	}
	return ProgramUse{Name: s.programNames[id], Runtime: stats.Runtime, Runs: stats.RunCount}, nil
}

// Run runs a trial. It fails if the relay ends.
func (s *Stage) Run(ctx context.Context, cfg Setup) (m *Measurement, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &Trial{Setup: cfg, stage: s}
	t.Relays = max(t.Relays, 1)
	defer t.stop()
	if err := s.site.setSegmentation(!t.CutByHosts); err != nil {
		return nil, err
	}
	if err := t.startFirst(ctx, cancel); err != nil {
		return nil, err
	}
	if err = t.setUp(ctx, cancel); err == nil {
		m, err = t.measure(ctx)
	}
	for _, r := range t.relays {
		if ended := r.Ended(); ended != nil {
			return nil, ended // it is the cause of any other error
		}
	}
	return m, err
}
