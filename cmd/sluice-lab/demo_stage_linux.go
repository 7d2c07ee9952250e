package main

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"syscall"

	"sluice/lab"
	"sluice/lab/measure"
	"sluice/lab/process"
)

// labStage runs each process in a host of a lab, and times packets at the relays' devices.
type labStage struct {
	lab     *lab.Lab
	chain   lab.Chain
	capture *lab.Capture
}

func openLabStage(ctx context.Context, relays, subscribers int, c lab.Conditions) (stage, error) {
	l, err := lab.New(ctx, lab.Topology{
		Relays: relays, Subscribers: subscribers, Uplink: c, Backbone: c, Downlink: c,
	})
	if err != nil {
		return nil, err
	}
	chain := l.Chain(relays)
	capture, err := l.StartCapture(chain.Points()...)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &labStage{l, chain, capture}, nil
}

func (s *labStage) command(ctx context.Context, host string, args ...string) (*process.Process, error) {
	h, err := s.lab.Host(host)
	if err != nil {
		return nil, err
	}
	return startProcess(ctx, host, func(cmd *exec.Cmd) error {
		// The lab ends with this process, so its processes must end, too.
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return h.Start(cmd)
	}, args...)
}

func (s *labStage) relayAddress(relay, host string) string {
	r, err := s.lab.Host(relay)
	h, missing := s.lab.Host(host)
	if err != nil || missing != nil {
		return ""
	}
	return r.Facing(h).IPv6.Addr().String()
}

func (s *labStage) dial(ctx context.Context, host, address string) (conn net.Conn, err error) {
	h, err := s.lab.Host(host)
	if err != nil {
		return nil, err
	}
	err = h.Do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

func (s *labStage) delays(host string) measure.Delays {
	h, err := s.lab.Host(host)
	if err != nil {
		return nil
	}
	packets := s.chain.Until(s.capture.Packets(), h)
	return measure.MatchBursts(packets).First()
}

func (s *labStage) close() error {
	_, err := s.capture.Stop()
	return errors.Join(err, s.lab.Close())
}
