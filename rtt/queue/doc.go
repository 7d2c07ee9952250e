// Package queue takes work off measuring: other goroutines write or send the results.
//
// A [Queue] is a [report.Sink] that passes intervals to a function, one at a time and in their order, on a goroutine of
// its own. It is bounded: an interval that finds no room is lost, counted and logged. The queue of a replay makes the
// replay wait instead. [Events] is the same for RTTs and flow events, which are far more.
package queue
