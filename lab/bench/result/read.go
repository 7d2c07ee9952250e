package result

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// maxReportSize is the largest results file that is read, in bytes: some hundred times the size of a full run.
const maxReportSize = 256 << 20

// ReadFile reads and validates a results file. Errors name the file.
func ReadFile(path string) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxReportSize+1))
	if err != nil {
		return Report{}, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxReportSize {
		return Report{}, fmt.Errorf("%s is larger than %d MiB: not a results file", path, maxReportSize>>20)
	}
	r, err := Parse(data)
	if err != nil {
		return Report{}, fmt.Errorf("%s is not a results file of this version: %w", path, err)
	}
	return r, nil
}

// Parse reads and validates a report in its JSON form.
func Parse(data []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, err
	}
	if r.Format != Format {
		return Report{}, fmt.Errorf("its format is %d, this program reads %d", r.Format, Format)
	}
	return r, r.Validate()
}
