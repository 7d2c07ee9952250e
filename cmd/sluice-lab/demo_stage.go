package main

import (
	"context"
	"io"
	"net"
	"os/exec"

	"sluice/lab/measure"
)

// loopbackStage runs all processes on this host.
type loopbackStage struct{}

func (loopbackStage) command(ctx context.Context, host string, out io.Writer, args ...string) (*process, error) {
	return startProcess(ctx, host, out, (*exec.Cmd).Start, args...)
}

func (loopbackStage) relayAddress(string, string) string { return "127.0.0.1" }

func (loopbackStage) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

func (loopbackStage) delays(string) measure.Delays { return nil }

func (loopbackStage) close() error { return nil }
