package trial

import (
	"context"
	"fmt"
	"slices"

	"sluice/lab/bench/broker"
	"sluice/lab/bench/load"
	"sluice/lab/bench/procfs"
)

// publishers returns the load generators that publish.
func (t *Trial) publishers() []*process {
	if t.Participants > 0 {
		return t.subscribers
	}
	return []*process{t.publisher}
}

func tellAll(processes []*process, command string) error {
	for _, p := range processes {
		if err := p.tell(command); err != nil {
			return err
		}
	}
	return nil
}

// confer starts the participants in a conference, and waits until all of them watch all others.
func (t *Trial) confer(ctx context.Context) (err error) {
	var namespaces []string
	for i := range t.Participants {
		namespaces = append(namespaces, fmt.Sprintf("bench/participant%d", i+1))
	}
	for i, own := range namespaces {
		at := generatorHost{role: broker.Subscribers, number: i, prefix: niceness(publisherNice)}
		p, err := t.startGenerator(ctx, at, fmt.Sprintf("participant%d", i+1), load.GeneratorConfig{
			Publish: true, URL: t.url(t.stage.site.address(at)), Mock: t.Mock, Namespace: own,
			Others: slices.DeleteFunc(slices.Clone(namespaces), func(n string) bool { return n == own }),
		})
		if err != nil {
			return err
		}
		t.subscribers = append(t.subscribers, p)
		ready, err := p.await(ctx, setUpLimit)
		if err != nil {
			return err
		}
		t.peer = ready.Peer
	}
	if t.before, err = procfs.ReadMemory(t.relay.pid()); err != nil {
		return t.relay.failure(err)
	}
	if err := tellAll(t.subscribers, load.Join); err != nil {
		return err
	}
	for _, p := range t.subscribers {
		if _, err := p.await(ctx, setUpLimit); err != nil {
			return err
		}
	}
	return nil
}
