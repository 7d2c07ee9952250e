package lab

import (
	"fmt"
	"os"
)

// Status describes the lab, which this process holds.
func (l *Lab) Status() (Status, error) {
	status := Status{PID: os.Getpid()}
	for _, h := range l.Hosts() {
		host := HostStatus{Name: h.Name, Namespace: fmt.Sprintf("/proc/%d/fd/%d", status.PID, h.ns.File.Fd())}
		for _, d := range h.Devices {
			device, err := d.status()
			if err != nil {
				return Status{}, err
			}
			host.Devices = append(host.Devices, device)
		}
		status.Hosts = append(status.Hosts, host)
	}
	return status, nil
}

// Apply makes a change.
func (l *Lab) Apply(c Change) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	h, err := l.Host(c.Host)
	if err != nil {
		return err
	}
	d, err := h.pick(c.Device)
	if err != nil {
		return err
	}
	steps := []struct {
		wanted bool
		do     func() error
	}{
		{c.ToHost != nil, func() error { return d.Link.Set(ToHost, *c.ToHost) }},
		{c.FromHost != nil, func() error { return d.Link.Set(FromHost, *c.FromHost) }},
		{c.Up != nil, func() error { return d.Link.SetUp(*c.Up) }},
		{c.Rebind, d.Link.Rebind},
		{c.ChangeAddress, d.ChangeAddress},
	}
	for _, s := range steps {
		if s.wanted {
			if err := s.do(); err != nil {
				return err
			}
		}
	}
	return nil
}
