package hosts

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"sluice/lab/bench/procfs"
	"sluice/lab/bench/result"
	"sluice/lab/bench/trial"
)

// Describe describes this machine, and its device that has an address of the relay or leads there.
func Describe(address string) (h result.Host, err error) {
	if h.Machine, err = procfs.ReadMachine(); err != nil {
		return h, err
	}
	if h.Device, err = deviceTowards(address); err != nil {
		return h, err
	}
	h.Machine.Offloads, err = trial.ReadOffloads(h.Device.Name)
	return h, err
}

// deviceTowards returns the device that has an address, or from which packets to it leave.
func deviceTowards(address string) (result.Device, error) {
	conn, err := net.Dial("udp", net.JoinHostPort(address, "9")) // this sends nothing
	if err != nil {
		return result.Device{}, fmt.Errorf("find a route to %s: %w", address, err)
	}
	defer conn.Close()
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("")
	d, err := trial.DeviceOf(local.String())
	if err != nil {
		return result.Device{}, err
	}
	return readDevice(d), nil
}

func readDevice(d net.Interface) result.Device {
	dir := filepath.Join("/sys/class/net", d.Name)
	queues, _ := filepath.Glob(filepath.Join(dir, "queues", "rx-*"))
	rps, _ := os.ReadFile(filepath.Join(dir, "queues", "rx-0", "rps_cpus"))
	driver, _ := os.Readlink(filepath.Join(dir, "device", "driver")) // a virtual device has none
	if driver != "" {
		driver = filepath.Base(driver)
	}
	return result.Device{
		Name: d.Name, Driver: driver, MTU: d.MTU, Queues: len(queues), RPS: strings.TrimSpace(string(rps)),
	}
}
