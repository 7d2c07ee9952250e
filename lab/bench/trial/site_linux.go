package trial

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"strconv"

	"sluice/lab"
	"sluice/lab/bench/broker"
	"sluice/lab/bench/load"
	"sluice/lab/bench/softirq"
	"sluice/lab/bench/system"
	"sluice/lab/netns"
)

// site is where the processes of trials run: in a lab, or on machines of their own.
type site interface {
	// startRelay starts a relay in its network. The relays of a chain count from 0.
	startRelay(ctx context.Context, relay int, name string, argv []string) (*process, error)
	// dial reaches an address of a relay's network.
	dial(relay int, network, address string) (net.Conn, error)
	// upstream returns where a relay reaches its predecessor.
	upstream(relay int) string
	// startGenerator starts a load generator on a host.
	startGenerator(ctx context.Context, at generatorHost, name string, cfg load.GeneratorConfig) (*process, error)
	// address returns where a host reaches its relay.
	address(at generatorHost) string
	// capture begins to record packets at the points of a chain of relays.
	capture(relays int) (*lab.Capture, error)
	// eachNamespace calls add with the network namespaces of all hosts.
	eachNamespace(add func(inode uint64, r softirq.Role) error) error
	// drivers returns the role that the time of network softirqs before they have a packet belongs to.
	drivers() softirq.Role
	// setSegmentation sets whether devices cut the bursts of senders that use UDP GSO.
	setSegmentation(byDevices bool) error
	offloads() (map[string]string, error)
	close() error
}

// generatorHost is a host of a site with a load generator, and how the generator runs there.
type generatorHost struct {
	role   broker.Role
	number int // of several hosts with the role
	relay  int // that it reaches
	// program is the generator on the relay's machine, and prefix a command that starts it. Other machines have their
	// own generator, and are its own.
	program string
	prefix  []string
}

func relayURL(address string) string {
	return "moqt://" + net.JoinHostPort(address, strconv.Itoa(system.Port))
}

// labSite is a lab.
type labSite struct{ *lab.Lab }

func (s *labSite) startRelay(ctx context.Context, relay int, name string, argv []string) (*process, error) {
	return start(ctx, s.Relays[relay].Start, name, false, argv)
}

// dial connects inside a relay's host.
func (s *labSite) dial(relay int, network, address string) (conn net.Conn, err error) {
	err = s.Relays[relay].Do(func() error {
		conn, err = net.Dial(network, address)
		return err
	})
	return conn, err
}

func (s *labSite) upstream(relay int) string {
	return s.Relays[relay-1].Facing(s.Relays[relay]).IPv6.Addr().String()
}

func (s *labSite) host(at generatorHost) *lab.Host {
	if at.role == broker.Subscribers {
		return s.Subscribers[at.number]
	}
	return s.Publisher
}

func (s *labSite) startGenerator(
	ctx context.Context, at generatorHost, name string, cfg load.GeneratorConfig,
) (*process, error) {
	return start(ctx, s.host(at).Start, name, true, generatorCommand(at, cfg))
}

func (s *labSite) address(at generatorHost) string {
	return s.Relays[at.relay].Facing(s.host(at)).IPv6.Addr().String()
}

func (s *labSite) capture(relays int) (*lab.Capture, error) {
	return s.StartCapture(s.Chain(relays).Points()...)
}

func (s *labSite) eachNamespace(add func(uint64, softirq.Role) error) error {
	for role, hosts := range map[softirq.Role][]*lab.Host{
		softirq.Relay: s.Relays, softirq.Publisher: {s.Publisher}, softirq.Subscribers: s.Subscribers,
	} {
		for _, h := range hosts {
			inode, err := h.Namespace()
			if err := errors.Join(err, add(inode, role)); err != nil {
				return err
			}
		}
	}
	return nil
}

// drivers are the links, which hand packets from one host to the other.
func (s *labSite) drivers() softirq.Role { return softirq.Nobody }

func (s *labSite) setSegmentation(byDevices bool) error { return s.SetSegmentation(byDevices) }

func (s *labSite) offloads() (features map[string]string, err error) {
	err = s.Relay.Do(func() error {
		features, err = ReadOffloads(s.Relay.Devices[0].Name)
		return err
	})
	return features, err
}

func (s *labSite) close() error { return s.Close() }

// generatorCommand returns the words that start a load generator on this machine.
func generatorCommand(at generatorHost, cfg load.GeneratorConfig) []string {
	b, err := json.Marshal(cfg)
	if err != nil {
		panic(err) // all its fields can be marshalled
	}
	return append(at.prefix[:len(at.prefix):len(at.prefix)], at.program, "bench-load", string(b))
}

// machineSite is this machine, which is the relay's, and machines that a broker reaches. There is one relay.
type machineSite struct {
	Machines
	devices []string
}

func (s *machineSite) startRelay(ctx context.Context, _ int, name string, argv []string) (*process, error) {
	return start(ctx, (*exec.Cmd).Start, name, false, argv)
}

func (s *machineSite) dial(_ int, network, address string) (net.Conn, error) {
	return net.Dial(network, address)
}

func (s *machineSite) upstream(int) string { return "" }

// startGenerator starts a hog here, and the others on their machines.
func (s *machineSite) startGenerator(
	ctx context.Context, at generatorHost, name string, cfg load.GeneratorConfig,
) (*process, error) {
	if at.role == broker.Relay {
		return start(ctx, (*exec.Cmd).Start, name, true, generatorCommand(at, cfg))
	}
	conn, err := broker.Open(ctx, s.Broker, broker.Request{Role: at.role, Config: cfg})
	if err != nil {
		return nil, err
	}
	return connect(name, conn), nil
}

func (s *machineSite) address(at generatorHost) string {
	if at.role == broker.Subscribers {
		return s.Down
	}
	return s.Up
}

func (s *machineSite) capture(int) (*lab.Capture, error) { return lab.CaptureDevices(s.devices...) }

func (s *machineSite) eachNamespace(add func(uint64, softirq.Role) error) error {
	inode, err := netns.OwnInode()
	return errors.Join(err, add(inode, softirq.Relay))
}

func (s *machineSite) drivers() softirq.Role { return softirq.Relay }

// setSegmentation leaves devices as they are set up.
func (s *machineSite) setSegmentation(bool) error { return nil }

func (s *machineSite) offloads() (map[string]string, error) { return ReadOffloads(s.devices[0]) }

func (s *machineSite) close() error { return nil }
