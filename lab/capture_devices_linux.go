package lab

import (
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"sluice/lab/measure"
)

// CaptureDevices begins to record at devices of this machine, outside of any lab: packets before any other program sees
// them on their way in (measure.In), and after all others on their way out (measure.Out). A program that is attached
// later may change this order. It needs TCX, which Linux has since 6.6.
func CaptureDevices(names ...string) (*Capture, error) {
	var hooks []placedHook
	for _, name := range names {
		device, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("capture at %s: %w", name, err)
		}
		in := &tcxHook{device: device.Index, attach: ebpf.AttachTCXIngress, anchor: link.Head()}
		out := &tcxHook{device: device.Index, attach: ebpf.AttachTCXEgress, anchor: link.Tail()}
		hooks = append(hooks, placedHook{in, measure.In, true}, placedHook{out, measure.Out, true})
	}
	return startCapture(hooks)
}

// tcxHook is a place among the programs of a device of this machine.
type tcxHook struct {
	device int
	attach ebpf.AttachType
	anchor link.Anchor
	link   link.Link // once attached
}

// Attach attaches a program.
func (h *tcxHook) Attach(program *ebpf.Program) (err error) {
	h.link, err = link.AttachTCX(link.TCXOptions{
		Interface: h.device, Program: program, Attach: h.attach, Anchor: h.anchor,
	})
	if err != nil {
		return &MissingError{What: "TCX (Linux 6.6)", Err: err}
	}
	return nil
}

// Detach takes the program away.
func (h *tcxHook) Detach() error { return h.link.Close() }
