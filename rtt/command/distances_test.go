package command

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"sluice/rtt/networks"
)

// Where aggregates do not tell how far networks are, the answer says why.
func TestDistances(t *testing.T) {
	table := networks.New(24, 48)
	table.Add(netip.MustParseAddr("192.0.2.7"), 20*time.Millisecond)
	for _, c := range []struct {
		flags  []string
		status int
		text   string
	}{
		{nil, http.StatusOK, `"median_ns":20000000`},
		{[]string{"-a", "10", "--aggregate-parts"}, http.StatusOK, `"median_ns":20000000`},
		{[]string{"--aggregate-reverse"}, http.StatusOK, `"median_ns":20000000`}, // without -a, it does nothing
		{[]string{"-a", "10", "--aggregate-reverse"}, http.StatusNotImplemented, "--aggregate-reverse: a prefix has"},
		{[]string{"-a", "10", "--aggregate-groups", "f"}, http.StatusNotImplemented, "--aggregate-groups: groups are"},
	} {
		var f rttFlags
		cmd := new(cobra.Command)
		f.register(cmd.Flags())
		require.NoError(t, cmd.ParseFlags(c.flags))
		for _, path := range []string{"/rtt", "/rtt?to=192.0.2.1"} {
			answer := httptest.NewRecorder()
			f.distances(table).ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
			require.Equal(t, c.status, answer.Code, "%v %s", c.flags, path)
			require.Contains(t, answer.Body.String(), c.text)
		}
	}
}
