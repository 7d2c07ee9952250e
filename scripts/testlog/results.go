package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// An event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// results are what several runs of go test have found.
type results struct {
	packages []event  // the last event of each
	failed   []string // tests, and packages that failed without one, each time
	skipped  int
}

// read reads a run. It prints the result of each package, and before it what its failed tests said.
func read(in io.Reader, out io.Writer) (r results, err error) {
	said := make(map[event]*strings.Builder) // by package and test
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) == nil {
			r.take(e, said, out)
		} else {
			fmt.Fprint(out, line) // of go itself
		}
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return r, err
		}
	}
}

func (r *results) take(e event, said map[event]*strings.Builder, out io.Writer) {
	of := event{Package: e.Package, Test: e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		if said[of] == nil {
			said[of] = new(strings.Builder)
		}
		said[of].WriteString(e.Output)
	case "skip", "pass", "fail":
		if b := said[of]; b != nil && e.Action == "fail" {
			fmt.Fprint(out, b)
		}
		delete(said, of)
		if e.Test == "" {
			printRunning(e, said, out)
		}
		r.end(e, out)
	}
}

// printRunning prints what the tests of a package have said that have not ended when it does: a panic, or the end of
// the time that it had.
func printRunning(e event, said map[event]*strings.Builder, out io.Writer) {
	byTest := func(a, b event) int { return cmp.Compare(a.Test, b.Test) }
	for _, of := range slices.SortedFunc(maps.Keys(said), byTest) {
		if of.Package != e.Package {
			continue
		}
		if e.Action == "fail" {
			fmt.Fprint(out, said[of])
		}
		delete(said, of)
	}
}

// end notes that a test or a package has ended.
func (r *results) end(e event, out io.Writer) {
	if e.Test != "" {
		switch e.Action {
		case "fail":
			r.failed = append(r.failed, e.Package+" "+e.Test)
		case "skip":
			r.skipped++
		}
		return
	}
	r.packages = append(r.packages, e)
	fmt.Fprintf(out, "%s\t%s\t%.1fs\n", e.Action, e.Package, e.Elapsed)
	named := func(f string) bool { return strings.HasPrefix(f, e.Package+" ") }
	if e.Action == "fail" && !slices.ContainsFunc(r.failed, named) {
		r.failed = append(r.failed, e.Package)
	}
}

func (r *results) add(more results) {
	r.packages = append(r.packages, more.packages...)
	r.failed = append(r.failed, more.failed...)
	r.skipped += more.skipped
}

// mostPackages is how many of the slowest packages print names.
const mostPackages = 10

// print returns an error if something failed.
func (r *results) print(out io.Writer) error {
	slices.SortStableFunc(r.packages, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	fmt.Fprintln(out, "the slowest packages:")
	for _, e := range r.packages[:min(mostPackages, len(r.packages))] {
		fmt.Fprintf(out, "  %6.1f s  %s\n", e.Elapsed, e.Package)
	}
	fmt.Fprintf(out, "%d packages, %d tests were skipped, %d failed\n", len(r.packages), r.skipped, len(r.failed))
	times := make(map[string]int)
	for _, name := range r.failed {
		times[name]++
	}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		fmt.Fprintf(out, "FAILED: %s%s\n", name, repeated(times[name]))
	}
	if len(r.failed) > 0 {
		return fmt.Errorf("%d tests failed", len(r.failed))
	}
	return nil
}

// repeated says that a test failed n times: nothing, or ", 3 times".
func repeated(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", %d times", n)
}
