package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestWorkflows checks that what a forge runs are targets of the Makefile, and nothing else.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	command := regexp.MustCompile(`^make ([a-z-]+)( [A-Z_]+=\S.*)?$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var workflow struct {
			Jobs map[string]struct{ Steps []struct{ Run, Uses string } }
		}
		require.NoError(t, yaml.Unmarshal(text, &workflow), file)
		require.NotEmpty(t, workflow.Jobs, file)
		for _, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if target := command.FindStringSubmatch(step.Run); step.Uses == "" {
					require.NotNil(t, target, "%s: %s", file, step.Run)
					require.Regexp(t, `(?m)^`+target[1]+`:`, string(makefile), file)
				}
			}
		}
	}
}
