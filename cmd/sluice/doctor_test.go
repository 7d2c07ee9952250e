package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDoctorPorts expects the doctor to look at each port that a relay with these flags opens for others.
func TestDoctorPorts(t *testing.T) {
	for args, want := range map[string]string{
		"--listen :1 --admin=":                        "udp [::]:1, tcp [::]:1",
		"--listen 127.0.0.1:1 --web off":              "udp 127.0.0.1:1, tcp 127.0.0.1:4480",
		"--web :2 --acme a --acme-http :3":            "udp [::]:4443, tcp [::]:2, tcp [::]:3, tcp 127.0.0.1:4480",
		"--web off --admin= --rtsp :4 --rtsp-rtp=":    "udp [::]:4443, tcp [::]:4",
		"--web off --admin= --rtsps :5":               "udp [::]:4443, tcp [::]:5, udp [::]:8004",
		"--web off --admin= --cluster --rtsps-rtp :6": "udp [::]:4443, tcp 127.0.0.1:6222",
	} {
		f, _ := parse(t, strings.Fields(args)...)
		ports, err := portsOf(f)
		require.NoError(t, err)
		var got []string
		for _, p := range ports {
			require.NotEmpty(t, p.Effect)
			got = append(got, p.Network+" "+p.String())
		}
		require.Equal(t, want, strings.Join(got, ", "), args)
	}
}
