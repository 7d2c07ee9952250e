package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// WriteJSON writes a value for programs, and for people who read it.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// BytesText returns a number of bytes for people, as in "548.3 kB".
func BytesText(n uint64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, prefix := float64(n)/unit, 0
	for ; v >= unit && prefix < 3; prefix++ {
		v /= unit
	}
	return fmt.Sprintf("%.1f %cB", v, "kMGT"[prefix])
}

// SecondsText returns a duration for people, as in "10.02 s".
func SecondsText(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// TopReasons is how many reasons of a session are shown unless all are asked for.
const TopReasons = 3

// CountsText lists the largest counts that are not zero with their names, at most shown of them, as in
// "12 out_of_order, 5 window, 3 others".
func CountsText(counts map[string]uint64, shown int) string {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(counts)), func(name string) bool { return counts[name] == 0 })
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	var rest uint64
	for i, name := range names {
		if i < shown {
			parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
		} else {
			rest += counts[name]
		}
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d others", rest))
	}
	return strings.Join(parts, ", ")
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// KeepOpen returns a writer to w whose Close does nothing, for standard output in the place of a file.
func KeepOpen(w io.Writer) io.WriteCloser { return keptOpen{w} }

type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }
