package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/cli/clitest"
)

func TestMain(m *testing.M) {
	if isStay() {
		if err := stay(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(clitest.Main(m, "sluice", "sluice-lab"))
}

// scriptCommands are commands that only scripts of this package use.
var scriptCommands = map[string]clitest.Command{"nats": startNATS}

// startNATS is "nats NAME": it starts a NATS server, and sets a variable to its URL.
func startNATS(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: nats NAME")
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	ts.Check(err)
	s.Start()
	ts.Defer(s.Shutdown)
	if !s.ReadyForConnections(time.Minute) {
		ts.Fatalf("the NATS server does not start")
	}
	ts.Setenv(args[0], s.ClientURL())
}

func TestScripts(t *testing.T) { clitest.Run(t, scriptCommands) }
