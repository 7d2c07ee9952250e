// Package trial runs one relay under one load in the lab, and measures its delays and its use of resources.
//
// A [Stage] is a lab that lives for a whole benchmark. [Stage.Run] runs one trial in it:
//
//	start the relay            in its host; it is ready when the publisher has a session
//	start the publisher        a process of package load; then further relays, if the load is a chain; then the
//	                           subscribers; each load generator reports that it is ready
//	measure the idle machine   if the load asks for it
//	start the capture          at both devices of the relay, and tell the publisher to go
//	warm up                    then sample all counters
//	the measured period        then sample all counters again: their difference is a [Usage]
//	stop                       the publisher reports sent objects, subscribers received ones
//
// A relay is a black box (package system). If it ends, the trial fails with the end of its log.
//
// All processes share the processors of one machine, so a [Usage] tells whether the relay or the load generators
// decided the result ([Usage.Bottleneck], [Usage.Exhausted]).
package trial
