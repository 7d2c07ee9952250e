package rendition

import (
	"slices"
	"time"
)

// Tick is how often Look is called.
const Tick = 100 * time.Millisecond

// Sent is the state of a sender's connection at a time.
type Sent struct {
	Bytes        uint64 // of all packets, ever
	Window       int    // congestion window, bytes
	SRTT, MinRTT time.Duration
	Longest      time.Duration // RTT of the last two to four seconds
	Lag          time.Duration // age of the oldest byte of the rendition that could be sent if the path allowed it
	Dropping     bool          // a drop policy, or an operator's rule, holds something back
	Flows        bool          // there is something of the rendition to send
}

// Sender is a [Path], by the state of the sender's connection.
type Sender struct {
	state Sent
	sent  [rateSamples]sentSample // the latest last
	last  time.Time
}

type sentSample struct {
	at    time.Time
	bytes uint64
}

// rateSamples is how many samples two seconds have.
const rateSamples = int(2*time.Second/Tick) + 1

// Look takes the state of the connection now.
func (p *Sender) Look(now time.Time, s Sent) {
	if s.Flows && s.Bytes > p.state.Bytes {
		p.last = now
	}
	p.state = s
	copy(p.sent[:], p.sent[1:])
	p.sent[rateSamples-1] = sentSample{now, s.Bytes}
}

// Delay implements [Path]: by the age of media that waits here, and the time that packets wait on the path.
func (p *Sender) Delay(time.Time) time.Duration {
	return p.state.Lag + max(p.state.SRTT-p.state.MinRTT, 0)
}

// Dropping implements [Path].
func (p *Sender) Dropping(time.Time) bool { return p.state.Dropping }

// Rate implements [Path].
func (p *Sender) Rate(time.Time) float64 {
	latest := p.sent[rateSamples-1]
	i := slices.IndexFunc(p.sent[:], func(s sentSample) bool { return !s.at.IsZero() })
	if i < 0 || !latest.at.After(p.sent[i].at) {
		return 0
	}
	return float64((latest.bytes-p.sent[i].bytes)*8) / latest.at.Sub(p.sent[i].at).Seconds()
}

// Burst implements [Path]: a window may be sent in each RTT; the longest one counts. And a key frame is sent at
// once, so its last packet waits on the path for all others: that makes it late by the longest RTT over the shortest.
func (p *Sender) Burst() float64 {
	if p.state.Longest == 0 {
		return 0
	}
	most := uint64(0) // bytes of a tick
	for i, s := range p.sent[1:] {
		if before := p.sent[i]; !before.at.IsZero() {
			most = max(most, s.bytes-before.bytes)
		}
	}
	wait := max(p.state.Longest-p.state.MinRTT, time.Millisecond)
	return min(float64(p.state.Window*8)/p.state.Longest.Seconds(), float64(most*8)/wait.Seconds())
}

// Last implements [Path].
func (p *Sender) Last() time.Time { return p.last }
