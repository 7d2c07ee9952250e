package main

import (
	"context"
	"net"
	"os/exec"
	"syscall"
	"time"

	"sluice/internal/cli"
	"sluice/lab/measure"
	"sluice/lab/process"
)

// loopbackStage runs all processes on this host.
type loopbackStage struct{}

func (loopbackStage) command(ctx context.Context, host string, args ...string) (*process.Process, error) {
	return startProcess(ctx, host, (*exec.Cmd).Start, args...)
}

func (loopbackStage) relayAddress(string, string) string { return "127.0.0.1" }

func (loopbackStage) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

func (loopbackStage) delays(string) measure.Delays { return nil }

func (loopbackStage) close() error { return nil }

// startProcess starts sluice with arguments. The function start chooses where it runs. When ctx is done, the
// process receives SIGTERM and, if it does not end, SIGKILL. If ctx is done before, the error is its cause.
func startProcess(
	ctx context.Context, name string, start func(*exec.Cmd) error, args ...string,
) (*process.Process, error) {
	sluice, err := cli.FindProgram("sluice")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, sluice, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	p, err := process.Start(name, cmd, start)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return p, err
}
