package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	mostNew = 25 // per cent of the lines of the code that is measured
	nothing = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
)

// relay is the code that runs of relays measure.
var relay = []string{"claim", "congestion", "fastpath", "internal", "media", "moqt", "relay", "server", "track",
	"transport"}

// measures returns the folders that a results file measures.
func measures(key string) []string {
	switch kind, _, _ := strings.Cut(key, "/"); kind {
	case "forwarding":
		return []string{"rtt"}
	case "estimate":
		return []string{"lab"}
	case "replay":
		return []string{"congestion", "media"}
	case "rtsp":
		return append([]string{"rtsp"}, relay...)
	case "clients", "conference":
		return append([]string{"player"}, relay...)
	}
	return relay
}

// history checks that the commits of results and numbers are ancestors, and how much of the measured code is newer. A
// tree without history, such as that of an archive, has only a note.
func history(d data) (problems []string, note string) {
	if _, err := git("rev-parse", "HEAD"); err != nil {
		return nil, "pages: there is no history: commits of results are not checked\n"
	}
	commits := make(map[string]string) // by the place that names them
	for _, f := range d {
		commits[f.path] = f.Commit
	}
	for _, path := range find("docs/results/", ".tap") {
		text, _ := os.ReadFile(path)
		_, from, _ := strings.Cut(string(text), "conform, ")
		commits[path], _, _ = strings.Cut(from, "\n")
	}
	for path, text := range pages() {
		for _, m := range byHand.FindAllStringSubmatchIndex(text, -1) {
			commits[at(path, text, m[0])], _, _ = strings.Cut(strings.TrimSpace(text[m[2]:m[3]]), ",")
		}
	}
	for place, commit := range commits {
		if _, err := git("merge-base", "--is-ancestor", commit, "HEAD"); err != nil {
			problems = append(problems, fmt.Sprintf("%s: commit %q is not in the history", place, commit))
		}
	}
	for key, f := range d {
		all, added := newer(nothing, measures(key)), newer(f.Commit, measures(key))
		share := 100 * added / max(all, 1)
		line := fmt.Sprintf("%s: %d %% of the lines that it measures are newer than %s", f.path, share, f.Commit)
		if note += line + "\n"; share > mostNew {
			problems = append(problems, fmt.Sprintf("%s: must be at most %d: make evidence", line, mostNew))
		}
	}
	slices.Sort(problems)
	return problems, note
}

func git(arguments ...string) (string, error) {
	out, err := exec.Command("git", arguments...).Output()
	return string(out), err
}

// newer returns how many lines of hand-written code some folders have that a commit had not. A file that was moved is
// not new, wherever it was.
func newer(commit string, folders []string) (lines int) {
	out, _ := git("diff", "--numstat", "-z", "-M", "-l0", "--no-ext-diff", commit)
	fields := strings.Split(out, "\x00")
	for i := 0; i < len(fields)-1; i++ {
		counts := strings.Split(fields[i], "\t") // added, removed, name
		if name := counts[len(counts)-1]; name == "" {
			i += 2 // it was moved: the old and the new name follow
			counts[2] = fields[i]
		}
		folder, _, _ := strings.Cut(counts[2], "/")
		if slices.Contains(folders, folder) && slices.Contains([]string{".go", ".c", ".h"}, filepath.Ext(counts[2])) &&
			!strings.HasSuffix(counts[2], "_test.go") && !strings.HasSuffix(counts[2], "_bpfel.go") {
			added, _ := strconv.Atoi(counts[0])
			lines += added
		}
	}
	return lines
}
