// Command sluice-rtt measures the round-trip times of passing traffic. It is also the command sluice rtt.
package main

import (
	"os"

	"sluice/rtt/command"
)

func main() { os.Exit(command.Main()) }
