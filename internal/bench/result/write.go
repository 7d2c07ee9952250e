package result

import (
	"encoding/json"
	"os"
)

// WriteFile writes the report as a results file.
func (r Report) WriteFile(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
