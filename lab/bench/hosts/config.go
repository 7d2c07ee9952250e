package hosts

import (
	"io"

	"sluice/lab/bench"
)

// Config describes a bench on machines of their own.
type Config struct {
	Bench bench.RunConfig
	Hosts Hosts
	// Up and Down are the addresses at which publisher and subscribers reach the relay; "": as SSH does.
	Up, Down string
	SSH      string    // a configuration file for ssh; "" is the user's
	Output   io.Writer // gets the progress
}
