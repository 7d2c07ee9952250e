package bounds

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChecks(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string // "": none
	}{
		{Check("--budget", 1, 1, 32), ""},
		{Check("--budget", 32, 1, 32), ""},
		{Check("--budget", 0, 1, 32), "--budget: 0: must be between 1 and 32"},
		{Check("--budget", 33, 1, 32), "--budget: 33: must be between 1 and 32"},
		{
			Check("interval", 2*time.Hour, time.Millisecond, time.Hour),
			"interval: 2h0m0s: must be between 1ms and 1h0m0s",
		},
		{AtLeast("--sessions", 1, 1), ""},
		{AtLeast("--drain", -time.Second, 0), "--drain: -1s: must be at least 0s"},
		{Address("--listen", "[::1]:https", "an address"), ""},
		{Address("--listen", ":0", "an address"), ""},
		{Address("--listen", "443", "an address such as :443"),
			`--listen: "443": must be an address such as :443, with a port up to 65535`},
		{Address("--listen", ":99999", "this"), `--listen: ":99999": must be this, with a port up to 65535`},
		{OneOf("--scope", "url", "one", "path", "url"), ""},
		{OneOf("--scope", "", "one", "path", "url"), `--scope: "": must be one, path or url`},
		{OneOf("--drop", "all", "none", "priority"), `--drop: "all": must be none or priority`},
	} {
		if c.want == "" {
			require.NoError(t, c.err)
			continue
		}
		require.EqualError(t, errors.Join(c.err), c.want)
	}
}
