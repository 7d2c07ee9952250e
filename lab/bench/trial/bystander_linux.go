package trial

import (
	"context"
	"errors"
	"slices"

	"sluice/lab/bench/broker"
	"sluice/lab/bench/load"
)

// The publisher of a trial with a bystander, and the bystander, run on the same processor. In the lab, it handles their
// packets: the links hand packets over within the system call that sends them. So pings wait for the kernel's work on
// the publisher's packets.
var pinned = []string{"taskset", "-c", "0"}

// realTime gives a bystander priority over all ordinary processes: on a machine of its own it would not wait for them,
// but for interrupts and the kernel's work in them.
var realTime = []string{"chrt", "-f", "1"}

// startBystander starts the process that pings the relay's host, if the trial has one. It is on a host of its own.
func (t *Trial) startBystander(ctx context.Context) (err error) {
	if !t.Bystander {
		return nil
	}
	at := generatorHost{role: broker.Subscribers, number: len(t.Sessions), prefix: slices.Concat(pinned, realTime)}
	cfg := load.GeneratorConfig{Ping: t.stage.site.address(at)}
	if t.bystander, err = t.startGenerator(ctx, at, "bystander", cfg); err != nil {
		return err
	}
	_, err = t.bystander.await(ctx, setUpLimit)
	return err
}

// pinging returns the bystander's pings while wait runs.
func (t *Trial) pinging(ctx context.Context, wait func() error) (load.Pinged, error) {
	if t.bystander == nil {
		return load.Pinged{}, wait()
	}
	if err := t.bystander.tell(load.Go); err != nil {
		return load.Pinged{}, err
	}
	if err := wait(); err != nil {
		return load.Pinged{}, err
	}
	if err := t.bystander.tell(load.Stop); err != nil {
		return load.Pinged{}, err
	}
	e, err := t.bystander.await(ctx, reportLimit)
	if err == nil && e.Pinged == nil {
		err = t.bystander.Failure(errors.New("it did not report its pings"))
	}
	if err != nil {
		return load.Pinged{}, err
	}
	return *e.Pinged, nil
}
