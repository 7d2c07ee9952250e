package bench

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

var notInFileNames = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// fileName returns a name as a part of a path.
func fileName(name string) string { return notInFileNames.ReplaceAllString(name, "-") }

// storeProfiles writes the profiles of a run, and adds the names of the files to it.
func (o *outcome) storeProfiles(dir, scenario string) error {
	if dir == "" || len(o.profiles) == 0 {
		return nil
	}
	into := filepath.Join(dir, fileName(scenario))
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(o.profiles)) {
		name := fileName(fmt.Sprintf("%s-%d-%s", o.System, o.Repetition, kind))
		if err := os.WriteFile(filepath.Join(into, name), o.profiles[kind], 0o644); err != nil {
			return err
		}
		o.Profiles = append(o.Profiles, filepath.Join(filepath.Base(dir), filepath.Base(into), name))
	}
	return nil
}
