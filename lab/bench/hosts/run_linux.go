package hosts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/lab/bench/broker"
	"sluice/lab/bench/result"
)

// cleanUpTime is how long cleaning up may take.
const cleanUpTime = 30 * time.Second

// Run measures. An interrupted bench has a report, too.
func Run(ctx context.Context, cfg Config) (_ *result.Report, err error) {
	dir, err := os.MkdirTemp("", "sluice-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	machines := make(map[broker.Role]*machine)
	for _, role := range roles {
		machines[role] = &machine{options: options(cfg.SSH), role: role, host: cfg.Hosts[role]}
	}
	defer func() {
		// The bench may have been interrupted.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		for _, role := range roles {
			err = errors.Join(err, machines[role].cleanUp(ctx))
		}
	}()
	r := &run{Config: cfg, machines: machines, socket: filepath.Join(dir, "broker")}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	return r.measure(ctx)
}

// run is a call of Run.
type run struct {
	Config
	machines map[broker.Role]*machine
	socket   string // of the broker, on this machine
}

func (r *run) prepare(ctx context.Context) error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	system := unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Machine[:])
	programs := r.Bench.Programs
	for _, role := range roles {
		needed := []string{programs.Generator}
		if role == broker.Relay {
			needed = append(needed, programs.Sluice)
		}
		fmt.Fprintf(r.Output, "%s: copy to %s\n", role, r.Hosts[role])
		if err := r.machines[role].prepare(ctx, system, needed...); err != nil {
			return err
		}
	}
	if err := r.findAddresses(ctx); err != nil {
		return err
	}
	return r.describe(ctx)
}

// findAddresses finds the address of the relay, if none was given: the address that SSH connects to.
func (r *run) findAddresses(ctx context.Context) error {
	if r.Up != "" {
		return nil
	}
	m := r.machines[broker.Relay]
	settings, err := m.ssh(ctx, []string{"-G"}).Output()
	if err != nil {
		return m.failure("read the settings of ssh", err, "")
	}
	_, rest, _ := strings.Cut("\n"+string(settings), "\nhostname ")
	name, _, _ := strings.Cut(rest, "\n")
	addresses, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return fmt.Errorf("find the address of %s: use --relay-address: %w", m.host, err)
	}
	r.Up, r.Down = addresses[0], addresses[0]
	return nil
}

// describe adds descriptions of the machines to the configuration.
func (r *run) describe(ctx context.Context) error {
	for _, role := range roles {
		m, address := r.machines[role], r.Up
		if role == broker.Subscribers {
			address = r.Down
		}
		text, err := m.run(ctx, nil, r.generator(m), "bench-describe", address)
		if err != nil {
			return err
		}
		var h result.Host
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			return m.failure("describe the machine", err, "")
		}
		h.Role = string(role)
		r.Bench.Hosts = append(r.Bench.Hosts, h)
	}
	return nil
}

// generator returns the path of the program sluice-lab on a machine.
func (r *run) generator(m *machine) string {
	return path.Join(m.home, filepath.Base(r.Bench.Programs.Generator))
}

// measure runs the bench on the relay's machine, and fetches the results.
func (r *run) measure(ctx context.Context) (*result.Report, error) {
	l, err := net.Listen("unix", r.socket)
	if err != nil {
		return nil, err
	}
	serving, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	defer served.Wait()
	defer cancel()
	served.Go(func() { _ = broker.Serve(serving, l, r.start) }) // without it, the bench fails and says so

	m := r.machines[broker.Relay]
	failed := r.startBench(ctx, m)
	fetching, done := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer done()
	found, err := r.fetch(fetching, m)
	if found == nil && failed != nil {
		return nil, failed // that is why there are no results
	}
	return found, errors.Join(failed, err)
}

// startBench starts the bench on the relay's machine and waits for its end. It ends at the end of its input.
func (r *run) startBench(ctx context.Context, m *machine) error {
	far := path.Join(m.home, "broker")
	cfg := r.Bench
	machines := *cfg.Machines
	machines.Broker, machines.Up, machines.Down = far, r.Up, r.Down
	cfg.Machines = &machines
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	cmd := m.command(context.WithoutCancel(ctx), []string{"-R", far + ":" + r.socket},
		m.asRoot(r.generator(m), "bench-relay", path.Join(m.home, "out"))...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = r.Output, &log
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { in.Close() })
	defer stop()
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = in.Write(append(text, '\n'))
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return m.failure("bench", err, log.String())
	}
	return nil
}

// start starts a load generator for the broker.
func (r *run) start(ctx context.Context, request broker.Request, in io.Reader, out io.Writer) error {
	m := r.machines[request.Role]
	text, err := json.Marshal(request.Config)
	if err != nil {
		return err
	}
	cmd := m.command(ctx, nil, r.generator(m), "bench-load", string(text))
	var log bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &log
	if err := cmd.Run(); err != nil {
		return m.failure("load generator", err, log.String())
	}
	return nil
}

// fetch reads the results.
func (r *run) fetch(ctx context.Context, m *machine) (*result.Report, error) {
	text, err := m.run(ctx, nil, m.asRoot("cat", path.Join(m.home, "out", ResultsFile))...)
	if err != nil {
		return nil, err
	}
	found, err := result.Parse([]byte(text))
	if err != nil {
		return nil, m.failure("read the results", err, "")
	}
	return &found, nil
}
