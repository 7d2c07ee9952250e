// Command sluice relays live media over QUIC, publishes and plays it, and measures latencies.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run is main with an exit code.
func run() int {
	if len(os.Args) > 1 && os.Args[1] == "relay" { // and not lab exec relay, whose command would inherit it
		coarsenTimers() // before signals are caught: one that came meanwhile would be lost
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	onFirstSignal(cancel)
	return execute(ctx, &environment{
		args:   os.Args[1:],
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
	})
}

// onFirstSignal calls end at the first SIGINT or SIGTERM, so that the command ends in good order. By then the signals do again what
// they do by default: whoever sees that the command is ending can end the process with a second one.
func onFirstSignal(end func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals)
		end()
	}()
}
