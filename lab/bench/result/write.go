package result

import (
	"encoding/json"
	"os"
	"regexp"
)

// within matches line breaks inside of a run, which is four levels deep. Strings have none.
var within = regexp.MustCompile(`\n(?: {5,}| {4}([\]}]))`)

// WriteFile writes the report as a results file, with one line for each run.
func (r Report) WriteFile(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	b = within.ReplaceAll(b, []byte("$1"))
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
