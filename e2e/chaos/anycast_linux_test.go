package chaos

import (
	"fmt"
	"net/netip"
	"os/exec"

	"sluice/internal/lab"
)

// Addresses that all nodes of a cluster have, so that a client reaches the one that its routes lead to. They have the
// same certificate, and with it the keys for stateless resets: a client whose node has died is told by the next one.
var (
	anycast = netip.MustParseAddr("2001:2:0:3::1")
	refuge  = netip.MustParseAddr("2001:2:0:3::2") // where nodes that drain send their clients
)

// addAnycast gives a node the addresses.
func addAnycast(node *lab.Host) error {
	for _, addr := range []netip.Addr{anycast, refuge} {
		if err := ip(node, "-6", "address", "add", addr.String(), "dev", "lo", "nodad"); err != nil {
			return err
		}
	}
	return nil
}

// route leads a client to a node, when it uses one of the addresses.
func route(client *lab.Host, addr netip.Addr, node *lab.Host) error {
	via := node.Facing(client).IPv6.Addr().String()
	return ip(client, "-6", "route", "replace", addr.String(), "via", via, "dev", client.Devices[0].Name)
}

// setTCP lets a node send TCP packets to other hosts, or discards them all.
func setTCP(node *lab.Host, works bool) error {
	what := "add"
	if works {
		what = "delete"
	}
	return ip(node, "rule", what, "pref", "100", "ipproto", "tcp", "blackhole")
}

// ip runs the command ip in a host.
func ip(h *lab.Host, args ...string) error {
	cmd := exec.Command("ip", args...)
	var text []byte
	err := h.Do(func() (err error) {
		text, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		return fmt.Errorf("%v at %s: %w: %s", cmd, h.Name, err, text)
	}
	return nil
}
