package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"sluice/internal/lab"
)

// play does what the plan says.
func (r *tree) play() error {
	r.begin = time.Now()
	var back sync.WaitGroup
	defer back.Wait()
	for i := range r.events {
		e := &r.events[i]
		select {
		case <-time.After(time.Until(r.begin.Add(e.at))):
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
		r.played = r.events[:i+1]
		if e.what == weathered {
			if err := r.weather(e.node, e.link); err != nil {
				return err
			}
			continue
		}
		back.Wait() // no mishap begins before the node of the last one is back
		e.began = time.Now()
		end, err := r.do(*e)
		if err != nil {
			return fmt.Errorf("%v: %w", e, err)
		}
		back.Go(func() {
			time.Sleep(e.lasts)
			if err := end(); err != nil {
				r.stop(fmt.Errorf("%v: %w", e, err))
			}
			e.ended = time.Now()
		})
	}
	return nil
}

// weather sets the conditions of a node's link to other nodes.
func (r *tree) weather(node int, text string) error {
	link := r.lab.Relays[node].Device("up").Link
	c, err := lab.ParseConditions(text)
	return errors.Join(err, link.Set(lab.ToHost, c), link.Set(lab.FromHost, c))
}

// do begins a mishap, and returns what ends it.
func (r *tree) do(e treeEvent) (end func() error, err error) {
	node := r.nodes[e.node]
	if e.what.isAboutNATS() { // a viewer who comes meanwhile gets what nodes know the way to
		defer r.viewers[e.viewer].leave()
	}
	switch e.what {
	case cut:
		return func() error { return r.weather(e.node, "clean") }, r.weather(e.node, "loss=100%")
	case deaf:
		host := r.lab.Relays[e.node]
		return func() error { return setTCP(host, true) }, setTCP(host, false)
	case lost:
		return r.startServers, r.killServers()
	case unheard:
		err := r.killServers()
		node.signal(syscall.SIGKILL)
		<-node.done
		return func() error { return errors.Join(r.startServers(), node.begin()) }, err
	case killed, bereaved:
		err := r.eachPublisher(func(g *guest) error { return g.lead(r, e.node, e.to) })
		node.signal(syscall.SIGKILL)
		<-node.done
		return func() error { return node.begin() }, err
	case drained:
		err := r.lead(e.node, e.to)
		node.signal(syscall.SIGTERM)
		return func() error { return errors.Join(node.result(), node.begin()) }, err
	case replaced:
		old, err := node.replace()
		return old.result, err
	}
	return nil, errors.New("the mishap is not known")
}

func (r *tree) eachPublisher(f func(*guest) error) error {
	var errs []error
	for _, p := range r.publishers {
		errs = append(errs, f(p))
	}
	return errors.Join(errs...)
}

// lead prepares for a node of a cluster that drains: its clients go to another one.
func (r *tree) lead(from, to int) error {
	if !r.mesh {
		return nil
	}
	err := r.eachPublisher(func(g *guest) error { return g.follow(r, from, to) })
	for _, v := range r.viewers {
		err = errors.Join(err, v.follow(r, from, to))
	}
	return err
}
