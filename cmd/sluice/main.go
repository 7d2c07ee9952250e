// Command sluice relays live media over QUIC, publishes and plays it, and measures latencies.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"context"
)

func main() { os.Exit(run()) }

// run is main with an exit code. The first SIGINT or SIGTERM ends the command in good order; the second one ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return execute(ctx, &environment{
		args:   os.Args[1:],
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
	})
}
