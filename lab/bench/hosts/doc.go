// Package hosts runs a bench on machines of their own, which it reaches by SSH.
//
// [Run] is on the user's machine. It uses the program ssh, so the user's configuration, keys and agent work:
//
//	look           at each machine: does it run our programs, are we root on the relay's
//	copy           the programs into a new directory on each
//	describe       the machines and their network devices, for the report
//	broker         listen at a socket, forward it to the relay's machine (package broker)
//	relay          start "sluice-lab bench-relay" there, which measures ([bench.Measure]) and asks for load generators
//	fetch          results.json
//	clean up       remove the directories, whatever has happened
//
// The relay's machine does all the measuring: delays are differences of timestamps of its devices, so no clocks are
// compared. Publisher and subscribers report their own use.
package hosts
