package bench

import (
	"strconv"
	"strings"
)

// parseCPU returns the model of the processor from /proc/cpuinfo, and whether it says that there is a hypervisor.
func parseCPU(cpuinfo string) (model string, virtual bool) {
	fields := colonFields(cpuinfo)
	model = fields["model name"]
	if model == "" { // arm64 has numbers only
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

// hypervisor names what virtualises the machine, from what the firmware says of its vendor and product.
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
