package cluster

import (
	"maps"
	"slices"
)

// own are the routes of this node.
type own struct {
	state
	routes map[string]int // by the text form of the namespace: how many publishers announce it
}

// add notes a publisher. It returns the change to tell, or nil if the namespace has another publisher.
func (o *own) add(text string) *changeMessage {
	o.routes[text]++
	if o.routes[text] > 1 {
		return nil
	}
	o.Version++
	return &changeMessage{state: o.state, Namespace: text}
}

// remove is the reverse of add.
func (o *own) remove(text string) *changeMessage {
	n, known := o.routes[text]
	if !known {
		return nil
	}
	if n > 1 {
		o.routes[text]--
		return nil
	}
	delete(o.routes, text)
	o.Version++
	return &changeMessage{state: o.state, Namespace: text, Gone: true}
}

// parts returns the snapshot of the routes.
func (o *own) parts(c Card) (parts []part) {
	b := beat{state: o.state, Card: c}
	all := slices.Sorted(maps.Keys(o.routes))
	for i := 0; i == 0 || len(all) > 0; i++ {
		n := 0
		for size := 0; n < len(all) && size < maxPart; n++ {
			size += len(all[n]) + 3 // quotes and comma
		}
		parts = append(parts, part{beat: b, Index: i, Last: n == len(all), Routes: all[:n]})
		all = all[n:]
	}
	return parts
}
