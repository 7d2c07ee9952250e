package chaos

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"sluice/lab"
)

// attachment is a program of the fast path at a device. It can be detached behind the relay's back, and attached
// again, as an operator can do it with bpftool.
type attachment struct {
	attachPoint
	host    *lab.Host
	at      ebpf.AttachType
	program ebpf.ProgramID

	attached bool
	relays   link.ID   // the relay's link, until it was detached
	own      link.Link // the operator's link, later. The test keeps none of the relay's, which end with the relay
}

// newAttachments finds the programs that a relay has attached, in the order of attachPoints.
func newAttachments(h *lab.Host) (all []*attachment, err error) {
	for _, p := range attachPoints {
		a := &attachment{attachPoint: p, host: h, at: ebpf.AttachTCXIngress}
		if p.name == "client_egress" {
			a.at = ebpf.AttachTCXEgress
		}
		if err := a.find(); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// find finds the program and its link.
func (a *attachment) find() error {
	return a.inHost(func(device int) error {
		found, err := link.QueryPrograms(link.QueryOptions{Target: device, Attach: a.at})
		if err != nil {
			return err
		}
		for _, p := range found.Programs {
			name, err := programName(p.ID)
			if err != nil {
				return err
			}
			if name == a.name {
				a.program, a.attached = p.ID, true
				a.relays, _ = p.LinkID()
				return nil
			}
		}
		return fmt.Errorf("none of %d programs is %s", len(found.Programs), a.name)
	})
}

func programName(id ebpf.ProgramID) (string, error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return "", err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return "", err
	}
	return info.Name, nil
}

// inHost calls f in the host, with the index of the device.
func (a *attachment) inHost(f func(device int) error) error {
	err := a.host.Do(func() error {
		d, err := net.InterfaceByName(a.device)
		if err != nil {
			return err
		}
		return f(d.Index)
	})
	if err != nil {
		return fmt.Errorf("%v of %s: %w", a.at, a.device, err)
	}
	return nil
}

// detach detaches the program, if it is attached.
func (a *attachment) detach() error {
	if !a.attached {
		return nil
	}
	a.attached = false
	if a.own != nil {
		return a.own.Close()
	}
	l, err := link.NewFromID(a.relays)
	if err != nil {
		return err
	}
	return errors.Join(l.Detach(), l.Close())
}

// attach attaches the program, if it is detached.
func (a *attachment) attach() error {
	if a.attached {
		return nil
	}
	return a.inHost(func(device int) error {
		p, err := ebpf.NewProgramFromID(a.program)
		if err != nil {
			return err
		}
		defer p.Close()
		a.own, err = link.AttachTCX(link.TCXOptions{Interface: device, Program: p, Attach: a.at})
		a.attached = err == nil
		return err
	})
}
