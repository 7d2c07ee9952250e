package command

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"sluice/rtt/history"
)

// historyFlags select a part of a history.
type historyFlags struct {
	since, until, prefix string
}

func (f *historyFlags) register(flags *pflag.FlagSet, since string) {
	flags.StringVar(&f.since, "since", since, "begin this `time` ago, such as 90m, 12h or 7d")
	flags.StringVar(&f.until, "until", "", "end this `time` ago; default: now")
	flags.StringVar(&f.prefix, "prefix", "", "show only this `prefix` or group, as the history names it")
}

// pastQuery is a query whose times are relative to when it is asked.
type pastQuery struct {
	since, until time.Duration
	prefix       string
}

// parse reads the flags.
func (f *historyFlags) parse() (q pastQuery, err error) {
	q.prefix = f.prefix
	if q.since, err = parseAgo("--since", f.since); err != nil {
		return q, err
	}
	if f.until == "" {
		return q, nil
	}
	if q.until, err = parseAgo("--until", f.until); err != nil {
		return q, err
	}
	if q.until >= q.since {
		return q, fmt.Errorf("--until: %q: must be less than --since, which is %q", f.until, f.since)
	}
	return q, nil
}

// at returns the query as it is asked at a time.
func (q pastQuery) at(now time.Time) history.Query {
	return history.Query{From: now.Add(-q.since), To: now.Add(-q.until), Prefix: q.prefix}
}

// explainEmpty adds advice if a history has nothing that was asked for.
func explainEmpty(dir string, err error) error {
	switch {
	case errors.Is(err, history.ErrEmpty):
		return fmt.Errorf("%s: %w: choose an earlier time with --since", dir, err)
	case errors.Is(err, history.ErrNoPrefix):
		return fmt.Errorf("%s: %w: give --prefix as sluice-rtt top --history lists it, or an earlier time with --since",
			dir, err)
	}
	return err
}

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
