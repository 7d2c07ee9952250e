package moqt

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConformancePage checks that the files and tests that docs/moqt.md names exist, in the folder of their section.
func TestConformancePage(t *testing.T) {
	page, err := os.ReadFile("../docs/moqt.md")
	require.NoError(t, err)
	folders := map[string]string{
		"Codec": ".", "Sessions": "session", "Tracks and the cache": "../track", "Relay": "../relay",
	}
	named := regexp.MustCompile("`((?:internal/[a-z]+/)?[a-z_]+\\.go|(?:Test|Fuzz)[A-Za-z]+)`")
	// Tests of another folder.
	elsewhere := regexp.MustCompile(
		"`(relay(?:/internal/(?:names|hub))?|track|lab/conform|moqt/session)`: ((?:`Test[A-Za-z]+`(?:, )?)+)")
	introduction, _, _ := strings.Cut(string(page), "\n## ")
	path := regexp.MustCompile("`([a-z0-9_/-]+/[a-z_.]+\\.(?:go|ts|json))`")
	for _, m := range path.FindAllStringSubmatch(introduction, -1) {
		require.FileExists(t, filepath.Join("..", m[1]))
	}
	sections := strings.Split(string(page), "\n## ")[1:]
	require.Len(t, sections, len(folders))
	for _, section := range sections {
		title, text, _ := strings.Cut(section, "\n")
		require.Contains(t, folders, title)
		for _, other := range elsewhere.FindAllStringSubmatch(text, -1) {
			for _, name := range named.FindAllStringSubmatch(other[2], -1) {
				require.True(t, testsIn(t, "../"+other[1])[name[1]], "%s: there is no %s", other[1], name[1])
			}
		}
		text = elsewhere.ReplaceAllString(text, "")
		tests := testsIn(t, folders[title])
		names := named.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			if strings.HasSuffix(name[1], ".go") {
				require.FileExists(t, filepath.Join(folders[title], name[1]), title)
			} else {
				require.True(t, tests[name[1]], "%s: there is no %s", title, name[1])
			}
		}
	}
}

// testsIn returns the names of the tests and fuzz targets in a folder.
func testsIn(t *testing.T, folder string) map[string]bool {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	require.NoError(t, err)
	tests := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range declared.FindAllStringSubmatch(string(source), -1) {
			tests[name[1]] = true
		}
	}
	return tests
}
