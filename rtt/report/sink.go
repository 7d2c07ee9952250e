package report

import "errors"

// A Sink takes samples, flow events and intervals. Its methods are called one at a time. A sample or a flow
// event is the Sink's only until its method returns. An error ends the measurement.
type Sink interface {
	Sample(*Sample) error
	Flow(*FlowEvent) error
	Interval(*Interval) error
	// Flush writes out the values that the Sink holds back. It is called whenever no more values are ready.
	Flush() error
}

// IntervalsOnly is a part of sinks that take nothing else.
type IntervalsOnly struct{}

// Sample does nothing.
func (IntervalsOnly) Sample(*Sample) error { return nil }

// Flow does nothing.
func (IntervalsOnly) Flow(*FlowEvent) error { return nil }

// Flush does nothing.
func (IntervalsOnly) Flush() error { return nil }

// Tee is a Sink that passes everything to several others, even if one of them fails.
type Tee []Sink

// Sample implements Sink.
func (t Tee) Sample(s *Sample) error { return t.each(func(k Sink) error { return k.Sample(s) }) }

// Flow implements Sink.
func (t Tee) Flow(f *FlowEvent) error { return t.each(func(k Sink) error { return k.Flow(f) }) }

// Interval implements Sink.
func (t Tee) Interval(i *Interval) error { return t.each(func(k Sink) error { return k.Interval(i) }) }

// Flush implements Sink.
func (t Tee) Flush() error { return t.each(Sink.Flush) }

func (t Tee) each(do func(Sink) error) error {
	var err error
	for _, sink := range t {
		err = errors.Join(err, do(sink))
	}
	return err
}
