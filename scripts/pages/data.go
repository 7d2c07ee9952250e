package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/lab/bench/result"
)

// file is a results file of the repository in the working directory.
type file struct {
	result.Report
	path string
}

// read reads the results files.
func read() (data, error) {
	d := make(data)
	for _, path := range find("docs/results/", ".json") {
		r, err := result.ReadFile(path)
		if err != nil {
			return nil, err
		}
		key := strings.TrimSuffix(strings.TrimPrefix(path, "docs/results/"), ".json")
		d[strings.TrimSuffix(key, "/results")] = file{r, path}
	}
	return d, nil
}

// find returns the files at most four folders below one whose names have an ending, but not what others wrote or a
// build has made.
func find(folder, ending string) (paths []string) {
	for _, below := range []string{"", "*/", "*/*/", "*/*/*/", "*/*/*/*/"} {
		found, _ := filepath.Glob(folder + below + "*" + ending)
		paths = append(paths, found...)
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		return strings.HasPrefix(path, "bin/") || strings.HasPrefix(path, "third_party/") ||
			strings.Contains(path, "node_modules/")
	})
}

// command returns the command that makes such results again, without where it writes them.
func (f file) command() (words []string) {
	for i, word := range f.Command {
		if word != "--out" && (i == 0 || f.Command[i-1] != "--out") {
			words = append(words, word)
		}
	}
	return words
}

// list prints a line for each results file: its key, the minutes of its run, its path and its command, for a shell.
func list(d data) {
	for _, key := range slices.Sorted(maps.Keys(d)) {
		fmt.Printf("%s %.0f %s", key, d[key].Duration/60, d[key].path)
		for _, word := range d[key].command()[1:] {
			fmt.Printf(" '%s'", strings.ReplaceAll(word, "'", `'\''`))
		}
		fmt.Println()
	}
}

// mostStolen is the share of CPU time that a hypervisor may give to others during a run.
const mostStolen = 0.02

// checkArrived refuses results of Sluice that lack objects, but where a bottleneck cannot carry all, or where programs
// of others, which lack one with any relay, are the clients.
func checkArrived(s *result.Scenario) error {
	if strings.HasPrefix(s.Name, "congestion/") || strings.HasPrefix(s.Name, "clients/") {
		return nil
	}
	for _, run := range s.Runs {
		lost := run.Metrics["lost"]
		if lost > 0 && strings.HasPrefix(run.System, "sluice") {
			return fmt.Errorf("%s: %.0f objects did not arrive with %s", s.Name, lost, run.System)
		}
	}
	return nil
}

// accept keeps the results of a run, unless they are not of a commit or something else used the machine meanwhile. Of a
// simulation, which anybody can make again, it leaves out the values of each frame.
func accept(from, commit, to string) error {
	r, err := result.ReadFile(from)
	if err != nil {
		return err
	}
	if r.Commit != commit {
		return fmt.Errorf("%s is of commit %s: must be %s", from, r.Commit, commit)
	}
	if r.Machine.Steal > mostStolen {
		return fmt.Errorf("disturbed: the hypervisor gave %.1f %% of the CPU time to others", 100*r.Machine.Steal)
	}
	for _, s := range r.Scenarios {
		var disturbed []string
		if err := checkArrived(&s); err != nil {
			return err
		}
		for i := range s.Runs {
			if run := &s.Runs[i]; strings.Contains(run.Unusable, "bottleneck") {
				disturbed = append(disturbed, run.Unusable)
			} else if r.Machine.Cores == 0 {
				run.Distributions, run.Series = nil, nil
			}
		}
		for i := range s.Summaries {
			if noise := s.Summaries[i].Noise(); noise != "" {
				disturbed = append(disturbed, noise)
			}
			if r.Machine.Cores == 0 {
				s.Summaries[i].Distributions = nil
			}
		}
		if len(disturbed) > 0 {
			return fmt.Errorf("disturbed: %s: %s", s.Name, strings.Join(disturbed, "; "))
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return r.WriteFile(to)
}
