package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/lab/bench"
	"sluice/lab/bench/hosts"
	"sluice/lab/bench/result"
	"sluice/lab/bench/trial"
)

// configureHosts completes the configuration of a bench on machines of their own.
func (f *benchFlags) configureHosts() (err error) {
	if f.hosts == "" {
		if f.relayAddress != "" || f.sshConfig != "" {
			return cli.Usage("--relay-address and --ssh-config need --hosts")
		}
		return nil
	}
	if len(f.peers) > 0 {
		return cli.Usage("--peer finds programs here: with --hosts, use --relay-cmd with a path on the relay's machine")
	}
	if f.unprotected {
		return cli.Usage("--unprotected needs a lab: packets without protection must not leave this machine")
	}
	if f.remote.Hosts, err = hosts.Parse(f.hosts); err != nil {
		return cli.AsUsage(err)
	}
	if f.relayAddress != "" {
		if f.remote.Up, f.remote.Down, err = hosts.ParseAddresses(f.relayAddress); err != nil {
			return cli.AsUsage(err)
		}
	}
	f.cfg.Machines = new(trial.Machines)
	return nil
}

// runHosts measures on machines of their own.
func (f *benchFlags) runHosts(ctx context.Context, env *cli.Environment) (*result.Report, error) {
	f.remote.Bench, f.remote.SSH, f.remote.Output = f.cfg, f.sshConfig, env.Stdout
	return hosts.Run(ctx, f.remote)
}

// newBenchRelay returns the hidden command by which a bench measures on the relay's machine.
func newBenchRelay(env *cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use:    "bench-relay DIRECTORY",
		Short:  "Be the relay's machine of sluice-lab bench --hosts",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return benchRelay(cmd.Context(), env, args[0]) },
	}
}

// benchRelay reads a configuration, measures until the end of its input, and writes the results to a directory.
func benchRelay(ctx context.Context, env *cli.Environment, out string) error {
	in := bufio.NewReader(env.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	var cfg bench.RunConfig
	if err := json.Unmarshal(line, &cfg); err != nil {
		return cli.AsUsage(err)
	}
	if cfg.Programs.Generator, err = os.Executable(); err != nil {
		return err
	}
	if cfg.Programs.Sluice, err = cli.FindProgram("sluice"); err != nil {
		return err
	}
	cfg.Progress = func(line string) { fmt.Fprintln(env.Stdout, line) }
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel(context.Canceled) // the user has interrupted the bench, or the connection is gone
	}()
	found, err := bench.Measure(ctx, cfg)
	if found == nil || len(found.Scenarios) == 0 {
		return err
	}
	return errors.Join(err, found.WriteFile(filepath.Join(out, hosts.ResultsFile)))
}

// newBenchDescribe returns the hidden command by which a bench describes a machine.
func newBenchDescribe(env *cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use:    "bench-describe ADDRESS",
		Short:  "Describe this machine for sluice-lab bench --hosts",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := hosts.Describe(args[0])
			if err != nil {
				return err
			}
			return json.NewEncoder(env.Stdout).Encode(h)
		},
	}
}
