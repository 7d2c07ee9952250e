package cluster

import (
	"maps"
	"slices"
)

// own are the routes of this node.
type own struct {
	state
	routes map[string]struct{} // by the text form of the namespace
}

// add notes a route. It returns the change to tell, or nil if there is none.
func (o *own) add(text string) *changeMessage {
	if _, known := o.routes[text]; known {
		return nil
	}
	o.routes[text] = struct{}{}
	o.Version++
	return &changeMessage{state: o.state, Namespace: text}
}

// remove is the reverse of add.
func (o *own) remove(text string) *changeMessage {
	if _, known := o.routes[text]; !known {
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
