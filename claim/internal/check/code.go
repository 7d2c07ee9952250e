package check

import (
	"os"
	"path/filepath"
	"strings"
)

// Missing returns the codes of rules whose files, below a directory, do not have the name.
func (m Model[S]) Missing(dir string) (codes []string) {
	for _, r := range m.Rules {
		if r.Code == "" {
			continue
		}
		file, name, _ := strings.Cut(r.Code, ": ")
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(text), name+"(") {
			codes = append(codes, r.Code)
		}
	}
	return codes
}
