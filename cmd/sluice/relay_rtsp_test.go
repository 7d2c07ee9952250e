package main

import (
	"testing"
)

// TestRTSPFlags expects each mistake to be named.
func TestRTSPFlags(t *testing.T) {
	requireMistakes(t, map[string]string{
		"--rtsp=:8554":                                                "",
		"--rtsps=:8322 --rtsp-rtp=":                                   "",
		"--rtsp=8554":                                                 `--rtsp: "8554": must be an address`,
		"--rtsp=:1 --rtsp-rtp=8000":                                   `--rtsp-rtp: "8000": must be an address`,
		"--rtsps=:1 --rtsps-rtp=":                                     "",
		"--rtsps=:1 --rtsps-rtp=80":                                   `--rtsps-rtp: "80": must be an address`,
		"--rtsp=:1 --rtsp-rtp=:8001":                                  `--rtsp-rtp: ":8001": must have an even port`,
		"--rtsps=:1 --rtsps-rtp=:0":                                   `--rtsps-rtp: ":0": must have an even port`,
		"--rtsps=:1 --rtsps-rtp=:x":                                   `--rtsps-rtp: ":x": must be an address`,
		"--rtsp=:1 --rtsp-rtp=:8004":                                  "", // nobody has the port of SRTP
		"--rtsp=:1 --rtsp-rtp=:8004 --rtsps=:2":                       `--rtsps-rtp: ":8004": must be another`,
		"--rtsp=:1 --rtsp-rtp=[::1]:8004 --rtsps=:2":                  `--rtsps-rtp: ":8004": must be another`,
		"--rtsp=:1 --rtsp-rtp= --rtsps=:2 --rtsps-rtp=":               "",
		"--rtsp=:1 --rtsp-rtp=[::1]:8 --rtsps=:2 --rtsps-rtp=[::2]:8": "",
		"--rtsp=:1 --rtsp-idle-timeout=10s":                           "",
		"--rtsp=:1 --rtsp-memory=16":                                  "",
		"--rtsp=:1 --rtsp-memory=15":                                  "--rtsp-memory: 15: must be between 16 and",
		"--rtsp=:1 --rtsp-idle-timeout=9s":                            "--rtsp-idle-timeout: 9s: must be at least 10s",
		"--rtsp=:1 --scope=path":                                      "",
		"--rtsp=:1 --scope=url":                                       "--scope: url: must be one or path",
		"--rtsps=:1 --scope=url":                                      "--scope: url: must be one or path",
		"--scope=url":                                                 "",
	}, "--dev")
}
