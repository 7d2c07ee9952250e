package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"sluice/lab/bench/report"
)

var (
	// A marker has a template, and is followed by the text that the template makes of data:
	// <!--= v "capacity/400" "capacity" -->60<!--/-->.
	// Without braces, a template is one action. One that begins with a line break stands on lines of its own.
	marker = regexp.MustCompile(`(?s)<!--=(.*?)-->(.*?)<!--/-->`)
	// byHand marks numbers of which no results file is committed.
	byHand = regexp.MustCompile(`(?s)<!-- by hand: (.*?)-->(.*?)<!--/-->`)
	origin = regexp.MustCompile(`^([0-9a-f]{7,40}), \d{4}-\d\d-\d\d, \S`)
	code   = regexp.MustCompile("(?ms)^```.*?^```$|^    [^\n]*|`[^`\n]*`")
	inside = regexp.MustCompile(`^<!--[^/].*<!--/-->`)
	// measured finds numbers that come of measuring, and not of deciding: small units, fractions, medians.
	measured = regexp.MustCompile(`[0-9]\*{0,2} ?(µs|ns|Mpps)\b|[0-9]\.[0-9]+\*{0,2} ?(%|(ms|s|MiB|kB|MB|Mbit/s)\b)|` +
		`[0-9]\*{0,2} %? ?of a core|\bmedians? of (two|three|four|five|[0-9])|[0-9]\.[0-9]+\*{0,2} / \*{0,2}[0-9]`)
)

// decided are what looks like numbers of runs, by page, and was chosen or computed by people.
var decided = map[string][]string{
	"docs/broadcasts.md": {"the median of five"},
	"docs/policies.md":   {"an Ornstein-Uhlenbeck process", "1.5 s of each 8 s", "2, 1 and 0.4 Mbit/s"},
	"docs/results.md":    {"2, 1 and 0.4 Mbit/s"},
	"docs/epping.md":     {"over 1 Mpps", "within 4 µs", "takes 287 ns"},
	"docs/rtt.md": {"up to 2.4 s too large", "from 7.6 µs to 10 s", "RTTs is 5.5 kB", "0.3 kB for each CPU",
		"(30 s); 5.5 kB each", "1.8 ms for 100,000", "that is 0.1 ms"},
	"docs/simulation.md": {"1.6 MB of objects", "8 with 0.3 %, or", "with 1.7 % and a round trip"},
	"docs/upgrade.md":    {"again after 0.1 s"},
}

// pages returns the pages that have numbers of runs, by path.
func pages() map[string]string {
	paths, _ := filepath.Glob("docs/*.md")
	texts := make(map[string]string)
	for _, path := range append(paths, "README.md", "docs/results/costs.md") {
		text, _ := os.ReadFile(path)
		texts[path] = string(text)
	}
	return texts
}

// at returns the place of a byte of a page.
func at(path, text string, offset int) string {
	return fmt.Sprintf("%s:%d", path, 1+strings.Count(text[:offset], "\n"))
}

// check returns what is wrong with pages, tables and links, a line each. With write, it first makes all of the data.
func check(d data, write bool) (problems []string) {
	texts := pages()
	for path, text := range texts {
		page := text
		for _, m := range slices.Backward(marker.FindAllStringSubmatchIndex(text, -1)) {
			old := text[m[4]:m[5]]
			made, err := execute(d, text[m[2]:m[3]])
			switch {
			case err != nil:
				problems = append(problems, at(path, text, m[0])+": "+err.Error())
			case write:
				page = page[:m[4]] + made + page[m[5]:]
			case made != old:
				problems = append(problems, differing(path, text, m[4], made))
			}
		}
		if texts[path] = page; page != text {
			if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
				problems = append(problems, err.Error())
			}
		}
		problems = append(problems, unmarked(path, page)...)
	}
	for _, f := range d {
		if filepath.Base(f.path) == "results.json" {
			problems = append(problems, tables(f, texts, write)...)
		}
	}
	problems = append(append(problems, links()...), commands()...)
	slices.Sort(problems)
	return problems
}

// execute returns what a template makes of the data.
func execute(d data, source string) (string, error) {
	text := strings.TrimSpace(source)
	if !strings.Contains(text, "{{") {
		text = "{{" + text + "}}"
	}
	t, err := template.New("marker").Funcs(d.functions()).Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err = t.Execute(&out, nil); strings.HasPrefix(source, "\n") {
		return "\n" + strings.TrimSpace(out.String()) + "\n", err
	}
	return out.String(), err
}

// differing returns the first line of a region that differs from its data.
func differing(path, text string, offset int, made string) string {
	old, now := strings.Split(text[offset:], "\n"), strings.Split(made, "\n")
	for i, line := range now {
		if i == len(now)-1 || line != old[i] {
			has, _, _ := strings.Cut(old[i], "<!--/-->")
			place := fmt.Sprintf("%s:%d", path, 1+i+strings.Count(text[:offset], "\n"))
			return fmt.Sprintf("%s: the page has %q, the data %q", place, has, line)
		}
	}
	return ""
}

// unmarked returns numbers of runs outside of markers, and markers that a forge or a reader would not understand.
func unmarked(path, text string) (problems []string) {
	for _, m := range byHand.FindAllStringSubmatchIndex(text, -1) {
		if from := text[m[2]:m[3]]; !origin.MatchString(from) {
			problems = append(problems, at(path, text, m[0])+": "+from+": must be COMMIT, YYYY-MM-DD, COMMAND")
		}
	}
	rest := text
	for _, without := range []*regexp.Regexp{marker, byHand, code} {
		rest = without.ReplaceAllStringFunc(rest, func(region string) string {
			return strings.Repeat("\n", strings.Count(region, "\n"))
		})
	}
	lines := strings.Split(text, "\n")
	for i, line := range strings.Split(rest, "\n") {
		place := fmt.Sprintf("%s:%d: ", path, i+1)
		chosen := slices.ContainsFunc(decided[path], func(d string) bool { return strings.Contains(line, d) })
		if found := measured.FindString(line); found != "" && !chosen {
			problems = append(problems, fmt.Sprintf("%s%q is outside of markers", place, found))
		}
		if inside.MatchString(lines[i]) {
			problems = append(problems, place+"a line that begins with a marker ends the paragraph before it")
		}
	}
	return problems
}

// tables compares, or writes, tables.md beside a results file, and its plots that are shown there or in a page.
func tables(f file, texts map[string]string, write bool) (problems []string) {
	beside, drawn := filepath.Dir(f.path), filepath.Dir(f.path)
	if !write {
		drawn, _ = os.MkdirTemp("", "pages")
		defer os.RemoveAll(drawn)
	}
	if err := report.Write(drawn, f.Report); err != nil {
		return []string{err.Error()}
	}
	text, _ := os.ReadFile(filepath.Join(beside, "tables.md"))
	shown := string(text)
	for path, text := range texts {
		folder, _ := filepath.Rel(filepath.Dir(path), beside)
		shown += strings.ReplaceAll(text, "("+folder+"/plots/", "(plots/")
	}
	paths, _ := filepath.Glob(filepath.Join(beside, "plots", "*.svg"))
	for _, path := range append(paths, filepath.Join(beside, "tables.md")) {
		name, _ := filepath.Rel(beside, path)
		old, _ := os.ReadFile(path)
		now, _ := os.ReadFile(filepath.Join(drawn, name))
		switch {
		case string(old) != string(now):
			problems = append(problems, path+": differs from "+f.path)
		case write && name != "tables.md" && !strings.Contains(shown, "("+name+")"):
			os.Remove(path)
		}
	}
	return problems
}
