package ipfix

import "time"

const (
	// mostGap is the time between two messages if the interval is long enough: some hundred prefixes take
	// no longer than people notice.
	mostGap = 10 * time.Millisecond
	// leastGap is the time between two messages of a monitor that ends, or of a replay.
	leastGap = 100 * time.Microsecond
	// leastPause is for how long it is worth to sleep.
	leastPause = time.Millisecond
	// burst is how many messages may make up for time that was lost. By default a socket of Linux has room for 92 of
	// full length (net.core.rmem_default, 212,992 bytes; such a packet takes 2,304).
	burst = 64
)

// gapOf returns the time between the messages of an interval: they take half of its time at most, so that they have
// been sent when the next ones come.
func gapOf(messages int, interval time.Duration) time.Duration {
	return max(0, min(mostGap, interval/2/time.Duration(messages)))
}

// pacer spreads messages over time: those sent at once have to fit into the collector's socket buffer.
type pacer struct {
	next time.Time // when the next message is due
}

// begin begins an interval. Nothing has to be made up for.
func (p *pacer) begin() {
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
}

// wait waits until a message is due, the next one being due after gap.
func (p *pacer) wait(gap time.Duration) {
	if pause := time.Until(p.next); pause >= leastPause {
		time.Sleep(pause)
	}
	if earliest := time.Now().Add(-burst * gap); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(gap)
}
