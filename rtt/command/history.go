package command

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sluice/rtt/history"
)

// historyLimits reads the flags about --history.
func (f *rttFlags) historyLimits() (l history.Limits, err error) {
	l.Size = int64(min(f.historySize, math.MaxInt64))
	l.Age, err = parseKeep("--history-age", f.historyAge)
	return l, err
}

// parseKeep reads how long something is kept. 0, or nothing, is no limit.
func parseKeep(flag, text string) (time.Duration, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	return parseAgo(flag, text)
}

// parseAgo reads a duration, also in days.
func parseAgo(flag, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		d = time.Duration(n * float64(24*time.Hour))
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s: %q: must be a time such as 90m, 12h or 7d", flag, text)
	}
	return d, nil
}
