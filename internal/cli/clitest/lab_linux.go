package clitest

import (
	"context"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/lab"
	"sluice/lab/control"
)

func init() { commands["uplab"] = upLab }

// labsPermitted reports whether this process may build labs.
func labsPermitted() bool { return lab.Permitted() == nil }

// upLab is "uplab NAME ARGUMENTS...": sluice-lab lab up, for a lab that ends with the script, however that ends.
func upLab(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("sluice-lab", append([]string{"lab", "up", "--name"}, args...)...))
	ts.Defer(func() {
		if client, err := control.Dial(args[0]); err == nil {
			_ = client.Down(context.Background())
		}
	})
}
