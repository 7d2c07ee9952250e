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
	testFunc = regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?((?:Test|Fuzz)[A-Z]\w*)\(`)
	testName = regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w*)\b(\*?)`)
)

// TestPagesNameTests checks that the tests exist that pages name, here or in the patched libraries. An asterisk stands
// for the rest of several names.
func TestPagesNameTests(t *testing.T) {
	t.Chdir("../..")
	out, err := exec.Command("git", "ls-files", "*.go", "*.md").Output()
	require.NoError(t, err)
	names := strings.Fields(string(out))
	for _, depth := range []string{"", "*/", "*/*/", "*/*/*/"} {
		found, err := filepath.Glob("third_party/*/src/" + depth + "*_test.go")
		require.NoError(t, err)
		names = append(names, found...)
	}
	var tests []string
	pages := make(map[string]string)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if filepath.Ext(name) == ".md" {
			pages[name] = string(text)
			continue
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			tests = append(tests, m[1]+"\n")
		}
	}
	all := "\n" + strings.Join(tests, "\n")
	for page, text := range pages {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			end := "\n"
			if m[2] == "*" {
				end = ""
			}
			assert.True(t, strings.Contains(all, "\n"+m[1]+end), "%s names the test %s: there is none", page, m[1])
		}
	}
}
