package command

import (
	"net/http"

	"sluice/rtt/networks"
)

// distances returns the handler that tells how far networks are. Aggregates may not tell that: then it says so, because
// an empty answer would mean that nothing was measured yet.
func (f *rttFlags) distances(t *networks.Table) http.Handler {
	switch {
	case f.aggregate > 0 && f.groups != "":
		return refused("--aggregate-groups: groups are no networks: leave it out to learn how far networks are")
	case f.aggregate > 0 && f.cfg.AggregateReverse:
		return refused("--aggregate-reverse: a prefix has the RTTs of those that it talks to: " +
			"leave it out to learn how far networks are")
	}
	return t
}

// refused answers each request with an error.
func refused(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, text, http.StatusNotImplemented)
	})
}
