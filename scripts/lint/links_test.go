package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	named   = regexp.MustCompile(`<a name="([^"]*)"`)
	removed = regexp.MustCompile(`[^\p{L}\p{N} _-]`) // of a heading, in its anchor
)

// TestLinks follows the links of pages to files, images and headings of the repository.
func TestLinks(t *testing.T) {
	require.NoError(t, os.Chdir("../.."))
	defer func() { require.NoError(t, os.Chdir("scripts/lint")) }()
	pages, err := exec.Command("git", "ls-files", "*.md", ":!third_party").Output()
	require.NoError(t, err)
	for _, page := range strings.Fields(string(pages)) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			target, err := os.ReadFile(to)
			if _, missing := os.Stat(to); !assert.NoError(t, missing, page) || m[2] == "" || err != nil {
				continue
			}
			assert.Contains(t, anchors(string(target)), strings.TrimPrefix(m[2], "#"), "%s: %s%s", page, m[1], m[2])
		}
	}
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
