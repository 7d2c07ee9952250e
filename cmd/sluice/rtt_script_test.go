package main

import (
	"path/filepath"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() { scriptCommands["hangup"] = hangup }

// setRTTEnv tells scripts where captures are.
func setRTTEnv(env *testscript.Env) error {
	captures, err := filepath.Abs("../../internal/rtt/testdata")
	env.Setenv("CAPTURES", captures)
	env.Setenv("TZ", "UTC")
	return err
}

// hangup COMMAND sends SIGHUP to the background command of sluice with that name.
func hangup(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: hangup COMMAND")
	}
	for _, cmd := range ts.BackgroundCmds() {
		if len(cmd.Args) > 1 && cmd.Args[1] == args[0] && cmd.Process.Signal(syscall.SIGHUP) == nil {
			return
		}
	}
	ts.Fatalf("no sluice %s in the background", args[0])
}
