package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)#?([^)\s]*)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	named   = regexp.MustCompile(`<a name="([^"]*)"`)
	removed = regexp.MustCompile(`[^\p{L}\p{N} _-]`) // of a heading, in its anchor
)

// links follows the links of all pages to files, images and headings of the repository.
func links() (problems []string) {
	for _, path := range find("", ".md") {
		text, _ := os.ReadFile(path)
		for _, m := range link.FindAllStringSubmatchIndex(string(text), -1) {
			target, anchor := string(text[m[2]:m[3]]), string(text[m[4]:m[5]])
			if !strings.Contains(target, ":") && !leads(path, target, anchor) {
				problems = append(problems, at(path, string(text), m[0])+": "+string(text[m[0]:m[1]])+" leads nowhere")
			}
		}
	}
	return problems
}

// leads reports whether a link of a page has a target.
func leads(page, target, anchor string) bool {
	if target != "" {
		page = filepath.Join(filepath.Dir(page), target)
	}
	if _, err := os.Stat(page); err != nil || anchor == "" {
		return err == nil
	}
	text, err := os.ReadFile(page)
	return err != nil || slices.Contains(anchors(string(text)), anchor) // a folder has no headings
}

// anchors returns the anchors that a page names, and those of its headings, as forges make them.
func anchors(page string) (all []string) {
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		text := removed.ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(text, " ", "-"))
	}
	return all
}
