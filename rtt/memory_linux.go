package rtt

import (
	"sluice/rtt/attach"
	"sluice/rtt/kernel"
	"sluice/rtt/report"
)

// Memory loads the programs of a configuration, without attaching them to an interface, and returns what their tables
// take.
func Memory(cfg MonitorConfig) ([]report.TableMemory, error) {
	cfg.Sink = report.Tee{}
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	devices, err := attach.FindDevices(cfg.Interfaces)
	if err != nil {
		return nil, err
	}
	k, err := kernel.Load(cfg.settings(), cfg.limits(), attach.ProgramNames(cfg.Hook, devices))
	if err != nil {
		return nil, err
	}
	defer k.Close()
	return k.Memory()
}
