package signed

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func TestRulesCheckTimes(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var rules Rules
	for _, c := range []struct {
		claims Claims
		want   moqt.RequestErrorCode // 0: acceptable
	}{
		{Claims{}, 0},
		{Claims{Expires: now.Add(time.Second)}, 0},
		{Claims{Expires: now}, moqt.RequestExpiredAuthToken},
		{Claims{NotBefore: now.Add(clockSkew)}, 0},
		{Claims{NotBefore: now.Add(clockSkew + time.Second)}, moqt.RequestUnauthorized},
		{Claims{Review: MinReview}, 0},
		{Claims{Review: MinReview - 1}, moqt.RequestUnauthorized},
		{Claims{Review: -1}, moqt.RequestUnauthorized},
	} {
		refused := rules.Check(&c.claims, now)
		if c.want == 0 {
			require.Nil(t, refused, c.claims)
			continue
		}
		require.Equal(t, c.want, refused.Code, c.claims)
	}
	c := Claims{Review: time.Minute, Expires: now.Add(time.Hour)}
	require.Equal(t, now.Add(time.Minute), c.grant(now).Review)
	require.Equal(t, now.Add(time.Hour), c.grant(now).Expires)
}

func TestTime(t *testing.T) {
	require.Equal(t, "2023-11-14T22:13:20.5Z", Time(1_700_000_000.5).UTC().Format(time.RFC3339Nano))
	for _, seconds := range []float64{1e300, math.Inf(1)} {
		require.Equal(t, "9999-12-31T23:59:59Z", Time(seconds).UTC().Format(time.RFC3339))
	}
	require.Equal(t, int64(0), Time(-5).Unix())
}

func TestAccounts(t *testing.T) {
	const hashed = "sha256:0700000000000000000000000000000000000000000000000000000000000000"
	for want, c := range map[string]Claims{
		`"cam \"1\"" of "https://id.example"`: {Subject: `cam "1"`, Issuer: "https://id.example"},
		`"cam" of ""`:                         {Subject: "cam"},
		hashed:                                {Issuer: "https://id.example"},
	} {
		require.Equal(t, want, c.accountOf(digest{7}))
	}
	long := Claims{Subject: strings.Repeat("x", maxAccount)}
	require.Equal(t, hashed, long.accountOf(digest{7}))
	long.account = "x"
	require.Equal(t, "x", long.grant(time.Now()).Subject)
}
