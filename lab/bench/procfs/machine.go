package procfs

import (
	"strconv"
	"strings"
)

// parseCPU returns the model of the processor from /proc/cpuinfo, and reports whether a hypervisor runs it.
func parseCPU(cpuinfo string) (model string, virtual bool) {
	fields := colonFields(cpuinfo)
	model = fields["model name"]
	if model == "" { // arm64 has only numbers
		model = strings.TrimSpace("implementer " + fields["CPU implementer"] + " part " + fields["CPU part"])
	}
	for _, flag := range strings.Fields(fields["flags"]) {
		virtual = virtual || flag == "hypervisor"
	}
	return model, virtual
}

// parseLoad returns the load average over a minute from /proc/loadavg.
func parseLoad(text string) float64 {
	first, _, _ := strings.Cut(text, " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// hypervisor names the hypervisor from the firmware's vendor and product; "" if there is none.
func hypervisor(virtual bool, vendor, product string) string {
	name := strings.TrimSpace(vendor + " " + product)
	switch {
	case !virtual:
		return ""
	case name == "":
		return "unknown"
	}
	return name
}
