package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"syscall"
	"time"

	"sluice/internal/lab"
	"sluice/internal/lab/measure"
)

// labStage runs each process in a host of a lab, and times packets at the relay's devices.
type labStage struct {
	lab     *lab.Lab
	capture *lab.Capture
}

// Points of the capture.
const (
	intoRelay = iota
	outOfRelay
)

func openLabStage(ctx context.Context, subscribers int, c lab.Conditions) (stage, error) {
	l, err := lab.New(ctx, lab.Topology{Subscribers: subscribers, Uplink: lab.Symmetric(c), Downlink: lab.Symmetric(c)})
	if err != nil {
		return nil, err
	}
	capture, err := l.StartCapture(
		lab.Point{Device: l.Relay.Device("up"), Direction: lab.ToHost},
		lab.Point{Device: l.Relay.Device("down"), Direction: lab.FromHost})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &labStage{l, capture}, nil
}

func (s *labStage) command(ctx context.Context, host string, out io.Writer, args ...string) (*process, error) {
	h, err := s.lab.Host(host)
	if err != nil {
		return nil, err
	}
	return startProcess(ctx, host, out, func(cmd *exec.Cmd) error {
		// The lab ends with this process, so its processes must end, too.
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return h.Start(cmd)
	}, args...)
}

func (s *labStage) relayAddress(host string) string {
	if h, err := s.lab.Host(host); err == nil {
		return s.lab.Relay.Facing(h).IPv6.Addr().String()
	}
	return ""
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

func (s *labStage) delays(subscriber string) measure.Delays {
	h, err := s.lab.Host(subscriber)
	if err != nil {
		return nil
	}
	device := h.Devices[0]
	var packets []measure.Packet
	for _, p := range s.capture.Packets() {
		to := p.Flow.Target.Addr()
		if p.Point == intoRelay || to == device.IPv4.Addr() || to == device.IPv6.Addr() {
			packets = append(packets, p)
		}
	}
	return measure.MatchBursts(packets, intoRelay, outOfRelay, measure.BurstConfig{}).First()
}

func (s *labStage) limit(host string, rate lab.Rate, queue time.Duration) error {
	h, err := s.lab.Host(host)
	if err != nil {
		return err
	}
	link := h.Devices[0].Link
	c := link.Conditions(lab.ToHost)
	c.Rate, c.Queue = rate, queue
	return link.Set(lab.ToHost, c)
}

func (s *labStage) close() error {
	_, err := s.capture.Stop()
	return errors.Join(err, s.lab.Close())
}
