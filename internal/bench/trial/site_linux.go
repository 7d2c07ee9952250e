package trial

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"

	"sluice/internal/bench/load"
	"sluice/internal/bench/softirq"
	"sluice/internal/lab"
)

// generatorHost is a host of the lab with a load generator, and how the generator runs there.
type generatorHost struct {
	role   softirq.Role
	number int // of several hosts with the role
	relay  int // that it reaches
	// program is the generator, and prefix a command that starts it.
	program string
	prefix  []string
}

func relayURL(address string) string {
	return "moqt://" + net.JoinHostPort(address, strconv.Itoa(relayPort))
}

// site is the lab in which the processes of trials run.
type site struct{ *lab.Lab }

func (s *site) startRelay(ctx context.Context, relay int, name string, argv []string) (*process, error) {
	return start(ctx, s.Relays[relay].Start, name, false, argv)
}

// dial connects inside a relay's host.
func (s *site) dial(relay int, network, address string) (conn net.Conn, err error) {
	err = s.Relays[relay].Do(func() error {
		conn, err = net.Dial(network, address)
		return err
	})
	return conn, err
}

func (s *site) upstream(relay int) string {
	return s.Relays[relay-1].Facing(s.Relays[relay]).IPv6.Addr().String()
}

func (s *site) host(at generatorHost) *lab.Host {
	if at.role == softirq.Subscribers {
		return s.Subscribers[at.number]
	}
	return s.Publisher
}

func (s *site) startGenerator(
	ctx context.Context, at generatorHost, name string, cfg load.GeneratorConfig,
) (*process, error) {
	return start(ctx, s.host(at).Start, name, true, generatorCommand(at, cfg))
}

func (s *site) address(at generatorHost) string {
	return s.Relays[at.relay].Facing(s.host(at)).IPv6.Addr().String()
}

func (s *site) capture(relays int) (*lab.Capture, error) {
	return s.StartCapture(s.Chain(relays).Points()...)
}

func (s *site) eachNamespace(add func(uint64, softirq.Role) error) error {
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

func (s *site) offloads() (features map[string]string, err error) {
	err = s.Relay.Do(func() error {
		features, err = readOffloads(s.Relay.Devices[0].Name)
		return err
	})
	return features, err
}

// generatorCommand returns the words that start a load generator on this machine.
func generatorCommand(at generatorHost, cfg load.GeneratorConfig) []string {
	b, err := json.Marshal(cfg)
	if err != nil {
		panic(err) // all its fields can be marshalled
	}
	return append(at.prefix[:len(at.prefix):len(at.prefix)], at.program, "bench-load", string(b))
}
