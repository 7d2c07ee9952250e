package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Model is a system with finitely many states.
type Model[S comparable] struct {
	Start S
	Rules []Rule[S]
	Wrong func(S) string // returns which invariant a state breaks, or ""
	Owes  func(S) string // returns what a state owes, which it must not do for ever, or ""
}

// Rule is one kind of step.
type Rule[S comparable] struct {
	Name string
	Code string      // where the code does it, as "file: name"; "": the world around the code does it
	Fair bool        // if the step stays possible, it is made at last
	Next func(S) []S // the states that may follow; none: the step is not possible
}

// Step is a rule that leads to one state. With code "" it is a step of the world, which may not come.
func Step[S comparable](name, code string, possible func(s *S) bool, change func(s *S)) Rule[S] {
	return Rule[S]{Name: name, Code: code, Fair: code != "", Next: func(s S) []S {
		if !possible(&s) {
			return nil
		}
		change(&s)
		return []S{s}
	}}
}

// Result is the findings of a check.
type Result struct {
	States, Steps int
	Wrong         string   // "": nothing
	Trace         []string // the shortest way there
}

// String returns the result for people.
func (r Result) String() string {
	if r.Wrong == "" {
		return fmt.Sprintf("%d states, %d steps", r.States, r.Steps)
	}
	trace := strings.Join(r.Trace, "\n\t")
	return fmt.Sprintf("%s (found in %d states), after\n\t%s", r.Wrong, r.States, trace)
}

// graph is the states that were reached, in the order of their distance from the start.
type graph[S comparable] struct {
	model Model[S]
	index map[S]int32
	nodes []node[S]
}

type node[S comparable] struct {
	state  S
	parent int32
	by     int16 // the rule that led here from parent
	steps  []step
}

type step struct {
	to int32
	by int16
}

// Check explores the model.
func (m Model[S]) Check() Result {
	g := graph[S]{model: m, index: make(map[S]int32)}
	g.add(m.Start, -1, 0)
	r := Result{}
	for at := int32(0); int(at) < len(g.nodes); at++ {
		s := g.nodes[at].state
		if r.Wrong = m.Wrong(s); r.Wrong != "" {
			r.Trace = g.trace(at)
			break
		}
		g.nodes[at].steps = g.follow(at, s)
		r.Steps += len(g.nodes[at].steps)
		if g.mayRest(at) && g.owes(at) != "" { // found sooner than by findStuck, and nearest to the start
			r.Wrong, r.Trace = g.owes(at)+" for ever", g.trace(at)
			break
		}
	}
	if r.States = len(g.nodes); r.Wrong == "" {
		r.Wrong, r.Trace = g.findStuck()
	}
	return r
}

// Missing returns the codes of rules whose files, below a directory, do not have the name.
func (m Model[S]) Missing(dir string) (codes []string) {
	for _, r := range m.Rules {
		if r.Code == "" {
			continue
		}
		file, name, _ := strings.Cut(r.Code, ": ")
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(text), name+"(") {
			codes = append(codes, r.Code)
		}
	}
	return codes
}

// mayRest reports whether no fair rule leads on from a state.
func (g *graph[S]) mayRest(at int32) bool {
	return !slices.ContainsFunc(g.nodes[at].steps, func(s step) bool { return g.model.Rules[s.by].Fair })
}

// follow adds the states that may follow.
func (g *graph[S]) follow(at int32, s S) (steps []step) {
	for by, rule := range g.model.Rules {
		for _, next := range rule.Next(s) {
			steps = append(steps, step{g.add(next, at, int16(by)), int16(by)})
		}
	}
	return steps
}

func (g *graph[S]) add(s S, parent int32, by int16) int32 {
	at, ok := g.index[s]
	if !ok {
		at = int32(len(g.nodes))
		g.index[s] = at
		g.nodes = append(g.nodes, node[S]{state: s, parent: parent, by: by})
	}
	return at
}

// trace returns the names of the rules on the shortest way to a state, and the state.
func (g *graph[S]) trace(at int32) (names []string) {
	end := fmt.Sprintf("%+v", g.nodes[at].state)
	for ; g.nodes[at].parent >= 0; at = g.nodes[at].parent {
		names = append([]string{g.model.Rules[g.nodes[at].by].Name}, names...)
	}
	return append(names, end)
}
