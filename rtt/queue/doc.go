// Package queue takes work off measuring: what is measured is written or sent on other goroutines.
//
// A [Queue] is a [report.Sink] that passes intervals to a function, one at a time and in their order, on a goroutine of
// its own. It is bounded: an interval for which there is no room is lost, counted and logged. The queue of a replay
// makes the replay wait instead. [Events] is the same for RTTs and flow events, of which there are many more.
package queue
