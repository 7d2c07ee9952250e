package lab

import (
	"fmt"
	"os"

	"sluice/internal/lab/bpf"
)

// Stats returns the counters of one direction since the lab was built.
func (k *Link) Stats(d Direction) (LinkStats, error) {
	var perCPU []bpf.LinkEvents
	if err := k.lab.bpf.Counters.Lookup(k.lane(d), &perCPU); err != nil {
		return LinkStats{}, fmt.Errorf("read counters: %w", err)
	}
	var sum bpf.LinkEvents
	for _, cpu := range perCPU {
		for i, n := range cpu.Count {
			sum.Count[i] += n
		}
	}
	s := LinkStats{
		Packets:    sum.Count[bpf.LinkEventPACKETS],
		Exempt:     sum.Count[bpf.LinkEventEXEMPT],
		Lost:       sum.Count[bpf.LinkEventLOST],
		Marked:     sum.Count[bpf.LinkEventMARKED],
		Duplicated: sum.Count[bpf.LinkEventDUPLICATED],
		Reordered:  sum.Count[bpf.LinkEventREORDERED],
		Delayed:    sum.Count[bpf.LinkEventWIRED],
		Returned:   sum.Count[bpf.LinkEventRETURNED],
		Failed:     sum.Count[bpf.LinkEventFAILED],
	}
	var err error
	if d == FromHost {
		s.QueueDrops, err = k.device.host.ns.RateDrops(k.device.device)
	} else {
		s.QueueDrops, err = k.lab.network.ns.RateDrops(k.port)
	}
	return s, err
}

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

func (d *Device) status() (s DeviceStatus, err error) {
	d.host.lab.mu.Lock()
	s = DeviceStatus{Name: d.Name, IPv4: d.IPv4, IPv6: d.IPv6, Up: !d.Link.isDown}
	s.ToHost.Conditions, s.FromHost.Conditions = d.Link.conditions[ToHost], d.Link.conditions[FromHost]
	d.host.lab.mu.Unlock()
	if s.ToHost.Stats, err = d.Link.Stats(ToHost); err != nil {
		return s, err
	}
	s.FromHost.Stats, err = d.Link.Stats(FromHost)
	return s, err
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

// pick returns the device of a name, or the only one if the name is empty.
func (h *Host) pick(name string) (*Device, error) {
	if name == "" && len(h.Devices) == 1 {
		return h.Devices[0], nil
	}
	var names []string
	for _, d := range h.Devices {
		if d.Name == name {
			return d, nil
		}
		names = append(names, h.Name+":"+d.Name)
	}
	return nil, fmt.Errorf("no link of that name: %s has %q", h.Name, names)
}
