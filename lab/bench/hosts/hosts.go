package hosts

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"sluice/lab/bench"
	"sluice/lab/bench/broker"
)

// Hosts are the machines by role, by the names that SSH knows.
type Hosts map[broker.Role]string

// ResultsFile is the file with all results in the directory that "sluice-lab bench-relay" gets.
const ResultsFile = "results.json"

var roles = []broker.Role{broker.Publisher, broker.Relay, broker.Subscribers}

// Parse parses "pub=HOST,relay=HOST,sub=HOST".
func Parse(text string) (Hosts, error) {
	hosts := make(Hosts)
	for _, part := range strings.Split(text, ",") {
		role, host, _ := strings.Cut(part, "=")
		r := broker.Role(role)
		switch {
		case !slices.Contains(roles, r) || hosts[r] != "":
			return nil, fmt.Errorf("--hosts: %q: must be pub=HOST,relay=HOST,sub=HOST", text)
		case host == "" || strings.HasPrefix(host, "-") || strings.ContainsAny(host, " \t\n"):
			return nil, fmt.Errorf("--hosts: %q: must be a host, as ssh knows it", part)
		}
		hosts[r] = host
	}
	if len(hosts) != len(roles) {
		return nil, fmt.Errorf("--hosts: %q: must be pub=HOST,relay=HOST,sub=HOST", text)
	}
	return hosts, nil
}

// ParseAddresses parses "ADDRESS" or "UP,DOWN", the addresses at which publisher and subscribers reach the relay.
func ParseAddresses(text string) (up, down string, err error) {
	up, down, two := strings.Cut(text, ",")
	if !two {
		down = up
	}
	for _, a := range []string{up, down} {
		if ip, err := netip.ParseAddr(a); err != nil || ip.Zone() != "" {
			return "", "", fmt.Errorf("--relay-address: %q: must be an IP address, or two: of the devices that face "+
				"the publisher and the subscribers", text)
		}
	}
	return up, down, nil
}

// Config describes a bench on machines of their own.
type Config struct {
	Bench bench.RunConfig
	Hosts Hosts
	// Up and Down are the addresses at which publisher and subscribers reach the relay; "": as SSH does.
	Up, Down string
	SSH      string    // a configuration file for ssh; "" is the user's
	Output   io.Writer // gets the progress
}
