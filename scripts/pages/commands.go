package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	comment = regexp.MustCompile(`(?s)<!--.*?-->`) // among others commands of runs, which may be of an older commit
	chosen  = regexp.MustCompile(`go test ([^\x60\n]*?)-(?:run|bench) '?(\^?[\w.(][^' \x60\n]*)`)
	folder  = regexp.MustCompile(`\./\S+`)
	tested  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
)

// commands returns the commands of pages that run no test and no benchmark.
func commands() (problems []string) {
	for _, path := range find("", ".md") {
		if path == "docs/results.md" { // its commands are of runs
			continue
		}
		bytes, _ := os.ReadFile(path)
		text := comment.ReplaceAllStringFunc(string(bytes), func(region string) string {
			return strings.Repeat("\n", strings.Count(region, "\n"))
		})
		for _, m := range chosen.FindAllStringSubmatchIndex(text, -1) {
			in, expression := folder.FindString(text[m[2]:m[3]]), text[m[4]:m[5]]
			if in != "" && !runs(in, expression) {
				problems = append(problems, at(path, text, m[0])+": "+text[m[0]:m[1]]+" runs nothing")
			}
		}
	}
	return problems
}

// runs reports whether a folder has a test that an expression selects. The first part of the expression counts.
func runs(in, expression string) bool {
	first, _, _ := strings.Cut(expression, "/")
	selects, err := regexp.Compile(strings.TrimPrefix(first, "^"))
	if err != nil {
		return false
	}
	in, below := strings.CutSuffix(in, "/...")
	for _, path := range find(in+"/", "_test.go") {
		if !below && filepath.Dir(path) != filepath.Clean(in) {
			continue
		}
		text, _ := os.ReadFile(path)
		if slices.ContainsFunc(tested.FindAllStringSubmatch(string(text), -1), func(m []string) bool {
			return selects.MatchString(m[1])
		}) {
			return true
		}
	}
	return false
}
