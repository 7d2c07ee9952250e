package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/bounds"
	"sluice/relay"
	"sluice/relay/withdrawn"
)

// Sessions is a page of sessions.
type Sessions struct {
	Sessions []relay.SessionSummary `json:"sessions"`
	// Next is the value of after that asks for the next page. 0: this is the last one.
	Next uint64 `json:"next,omitempty"`
	// Draining are the ids of processes that this one has replaced, and that still have sessions.
	Draining []int `json:"draining,omitempty"`
}

// Ended says which sessions were ended.
type Ended struct {
	Ended     []uint64         `json:"ended"`
	Elsewhere []EndedElsewhere `json:"elsewhere,omitempty"`
}

// EndedElsewhere says which sessions of another process of the relay were ended.
type EndedElsewhere struct {
	Process int      `json:"process"`
	Ended   []uint64 `json:"ended"`
}

// Withdrawals are the subjects whose tokens have no force, and those that were restored before their time.
type Withdrawals struct {
	Withdrawals []withdrawn.Entry `json:"withdrawals"`
}

// Draining says that the relay goes out of service.
type Draining struct {
	Sessions int `json:"sessions"` // that have to leave
}

// Limits of a page of sessions.
const (
	defaultPage = 100
	maxPage     = 1000
)

// query are the parameters of a request. Methods note the first mistake in err.
type query struct {
	url.Values
	err error
}

// queryOf returns the parameters, which have to be among the names.
func queryOf(r *http.Request, names ...string) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values, err}
	for name, list := range values {
		switch {
		case !slices.Contains(names, name):
			q.fail(fmt.Errorf("%s: is no parameter here; there are: %s", name, strings.Join(names, ", ")))
		case len(list) > 1 || list[0] == "":
			q.fail(fmt.Errorf("%s: must have one value", name))
		}
	}
	return q
}

func (q *query) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// number returns a parameter between two bounds, or 0 if there is none.
func (q *query) number(name string, low, high uint64) uint64 {
	if !q.Has(name) {
		return 0
	}
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil {
		err = fmt.Errorf("%s: %q: must be a number", name, q.Get(name))
	} else {
		err = bounds.Check(name, n, low, high)
	}
	q.fail(err)
	return n
}

// selector returns the filters.
func (q *query) selector() (s relay.Selector) {
	var err error
	if q.Has("prefix") {
		s.Prefix, err = relay.ParsePrefix(q.Get("prefix"))
		q.fail(err)
	}
	if q.Has("role") {
		s.Role, err = relay.ParseRole(q.Get("role"))
		q.fail(err)
	}
	s.Subject = q.Get("subject")
	return s
}

// life returns for how long to withdraw.
func (q *query) life() time.Duration {
	d, err := time.ParseDuration(q.Get("for"))
	if err != nil {
		q.fail(fmt.Errorf("for: %q: must be a duration such as 24h", q.Get("for")))
	}
	return d
}

// page returns the sessions after an id, as many as fit.
func page(all []relay.SessionSummary, after uint64, limit int) Sessions {
	first := slices.IndexFunc(all, func(s relay.SessionSummary) bool { return s.ID > after })
	if first < 0 {
		return Sessions{Sessions: []relay.SessionSummary{}}
	}
	all = all[first:]
	if len(all) <= limit {
		return Sessions{Sessions: all}
	}
	return Sessions{Sessions: all[:limit], Next: all[limit-1].ID}
}
