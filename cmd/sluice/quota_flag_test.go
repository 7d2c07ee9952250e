package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/relay"
)

func TestQuotaFlag(t *testing.T) {
	for text, want := range map[string]relay.Quota{
		"sessions=3":                        {Sessions: 3},
		"sessions=3,download=20mbit":        {Sessions: 3, Download: 20_000_000},
		"upload=1.5gbit,namespaces=none":    {Upload: 1_500_000_000, Namespaces: -1},
		"tracks=1,subscriptions=2":          {Tracks: 1, Subscriptions: 2},
		"requests=4,request-rate=5":         {Requests: 4, RequestRate: 5},
		"download=none,upload=100kbit":      {Download: -1, Upload: 100_000},
		"sessions=3,sessions=4,tracks=none": {Sessions: 4, Tracks: -1},
	} {
		var got relay.Quota
		require.NoError(t, quotaFlag{&got}.Set(text), text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                "must be one of sessions, tracks,",
		"sessions":        "must be one of sessions, tracks,",
		"seats=3":         "must be one of sessions, tracks,",
		"sessions=0":      "sessions: 0: must be between 1 and",
		"sessions=-1":     "sessions: -1: must be between 1 and",
		"sessions=many":   `sessions: "many": must be a number, or none`,
		"upload=20":       `upload: "20": must be a rate per second such as 20mbit`,
		"upload=NaNmbit":  `upload: "NaNmbit": must be a rate per second such as 20mbit`,
		"upload=1kbit":    "upload: 1000: must be between 100000 and",
		"upload=1e30gbit": "must be between 100000 and",
	} {
		require.ErrorContains(t, quotaFlag{new(relay.Quota)}.Set(text), want, text)
	}
}

func TestExemptAddresses(t *testing.T) {
	list, err := parsePrefixes("--a", []string{"192.0.2.7", "2001:db8::/32"})
	require.NoError(t, err)
	require.Equal(t, "192.0.2.7/32", list[0].String())
	require.Equal(t, "2001:db8::/32", list[1].String())
	for _, text := range []string{"", "host", "192.0.2.7/33"} {
		_, err := parsePrefixes("--a", []string{text})
		require.ErrorContains(t, err, "must be an address or a network")
	}
}
