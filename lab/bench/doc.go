// Package bench measures relays in the lab: the delay that they add, the CPU time, memory and system calls that they
// use, how many subscribers they serve, and how they treat a congested path.
//
// [Measure] makes plans from a [RunConfig]. A plan is a load, and the kinds of scenarios that its runs have metrics
// for. All systems run under a load in turns (A B A B …), so changes on the machine affect all of them. A run is one or
// several trials (package trial) and ends as an outcome: metrics, distributions, breakdowns and series by name, which
// the table in metrics.go describes. The outcomes of a system become a summary of the report (package result).
//
//	bench        plans, metrics, outcomes
//	├── trial    one relay under one load in the lab
//	│   ├── broker   starts load generators on other machines
//	│   ├── system   the relays: commands, versions
//	│   ├── load     load generators: publisher, subscribers, hog
//	│   │   └── video    the frames that they publish and verify
//	│   └── procfs   the resources that processes and the machine used
//	├── playback scores of what a viewer would have seen
//	├── pathprofile   paths whose rate and loss change
//	├── syscalls the system calls of a process, counted
//	└── result   the results: statistics, comparisons, results.json
//	replay       tries policies and controllers on recorded paths, offline
//	forwarding   measures latency monitors at a router, for sluice-lab forwarding
//	hosts        runs all of this on machines of their own, reached by SSH
//	report       pages, tables and plots of a result
//	└── chart    the data of one plot, and its drawing
//
// A new kind of scenario is a plan, its metrics, and a line in docs/bench.md; package report needs no change.
package bench
