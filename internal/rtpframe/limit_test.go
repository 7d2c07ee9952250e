package rtpframe

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/clock"
)

// shape is a bottleneck with a queue.
type shape struct {
	rate, queue float64 // packets a second; packets
	random      int     // each packet with such a number is lost; 0: none
	layered     bool    // two frames of three are disposable
}

// path is the way to a player that reports.
type path struct {
	shape
	limited bool

	waits          float64
	at             time.Duration
	sent           int
	report         Report
	limit          Limit
	flow           Flow
	frames         Frames
	good, all, cut int
}

// send gives a packet to the path, and reports whether it arrives.
func (p *path) send(at time.Duration) bool {
	p.waits = max(p.waits-(at-p.at).Seconds()*p.rate, 0)
	p.at = at
	p.sent++
	if p.waits+1 > p.queue || p.random > 0 && p.sent%p.random == 0 {
		p.report.Lost++
		return false
	}
	p.waits++
	return true
}

// play has a player get 25 frames a second for so long, in groups of 50: key frames of 20 packets, and others of five.
// It reports each second. A frame can be shown if it and all before it in its group have arrived.
func (p *path) play(seconds int) {
	const size = 1200
	chain := false
	for i := range 25 * seconds {
		at := time.Duration(i) * 40 * time.Millisecond
		now := clock.Time(time.Hour).Add(at)
		kind, packets := Delta, 5
		if i%50 == 0 {
			kind, packets, chain = Key, 20, true
		}
		if p.layered && i%3 != 0 && i%50 != 0 {
			kind = Disposable
		}
		frame := p.frames.Number(uint32(i), uint16(p.report.Highest))
		shown := chain
		for range packets {
			p.report.Highest++
			if !p.flow.Judge(frame, Question{Kind: kind, Size: size, Now: now}) {
				p.report.Declined++
				p.report.DeclinedSize += size
				p.report.Lost++
				shown = false
				continue
			}
			p.flow.Charge(size, now)
			p.report.Bytes += size
			shown = p.send(at) && shown
		}
		if kind != Disposable {
			chain = shown
		}
		if p.all++; shown {
			p.good++
		}
		p.report.At = time.Unix(0, 0).Add(at)
		if p.limited && i%25 == 24 {
			before := p.limit.Rate()
			rate := p.limit.Heed(p.report)
			p.flow.SetRate(rate)
			if rate != 0 && (before == 0 || rate < before) {
				p.cut++
			}
		}
	}
}

// TestLimit plays over paths that carry all or too little, with queues of several lengths, and over paths that lose
// packets at random. Where the path is too slow, more pictures can be shown. Elsewhere little or nothing is left out.
func TestLimit(t *testing.T) {
	const rate = 132.5 // packets a second of the media
	for name, tt := range map[string]struct {
		shape shape
		most  int // share of the pictures without a limit, in percent
		least int // with one
		cut   bool
	}{
		"all":            {shape{rate: 2 * rate, queue: 40}, 100, 100, false},
		"60 %, 200 ms":   {shape{rate: 0.6 * rate, queue: 26}, 1, 5, true},
		"60 %, 500 ms":   {shape{rate: 0.6 * rate, queue: 66}, 1, 30, true},
		"60 %, 1 s":      {shape{rate: 0.6 * rate, queue: 132}, 1, 30, true},
		"60 %, layers":   {shape{rate: 0.6 * rate, queue: 66, layered: true}, 1, 30, true},
		"80 %, layers":   {shape{rate: 0.8 * rate, queue: 26, layered: true}, 1, 35, true},
		"a few are lost": {shape{rate: 2 * rate, queue: 40, random: 30}, 1, 1, false},
		"many are lost":  {shape{rate: 2 * rate, queue: 40, random: 7}, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			without, with := path{shape: tt.shape}, path{shape: tt.shape, limited: true}
			without.play(120)
			with.play(120)
			share := func(p *path) int { return 100 * p.good / p.all }
			t.Logf("%d %% of the pictures without a limit, %d %% with one, %d cuts, %d packets declined, limit %d",
				share(&without), share(&with), with.cut, with.report.Declined, with.limit.Rate())
			require.LessOrEqual(t, share(&without), tt.most)
			require.GreaterOrEqual(t, share(&with), tt.least)
			require.Equal(t, tt.cut, with.cut > 0)
			if tt.shape.random > 0 {
				require.Less(t, 10*with.report.Declined, uint64(with.report.Highest), "a limit does not help")
			}
		})
	}
}

// TestHeed has reports about packets of 1,000 bytes, at the bounds of each rule.
func TestHeed(t *testing.T) {
	type step struct {
		after                 time.Duration
		sent, lost, left, out int // packets since the step before: sent, reported as lost, left out; the limit
	}
	const s = time.Second
	for name, steps := range map[string][]step{
		"cuts and growth": {
			{s, 100, 10, 0, 0}, {s, 100, 11, 0, 80100},
			{s, 80, 1, 0, 88111}, {s, 100, 2, 0, 89874}, {s, 100, 3, 0, 78460},
		},
		"enough": {{s, 100, 11, 0, 80100}, {s, 64, 0, 0, 0}},
		"losses of others": {
			{s, 100, 12, 0, 79200}, {s, 100, 6, 0, 67003}, {s, 100, 7, 0, 56081}, {s, 100, 24, 0, 38359},
			{s, 100, 13, 0, 0},
		},
		"all is lost, in vain": {
			{s, 100, 100, 0, 20000}, {s, 100, 100, 0, 20000}, {s, 100, 100, 0, 20000}, {s, 100, 100, 0, 0},
			{vainTime - 1, 5900, 5900, 0, 0}, {s, 100, 100, 0, 20000},
		},
		"often":                {{s - 1, 100, 50, 0, 0}, {1, 0, 0, 0, 45000}},
		"few packets":          {{s, 31, 31, 0, 0}, {s, 1, 1, 0, 3200}},
		"some are left out":    {{2 * s, 100, 150, 50, 15000}},
		"missed a little late": {{s, 100, 0, 50, 0}, {s, 100, 50, 0, 0}, {s, 100, 50, 0, 45000}},
	} {
		t.Run(name, func(t *testing.T) {
			var l Limit
			r := Report{At: time.Unix(1e9, 0), Highest: 100}
			l.Heed(r)
			for i, step := range steps {
				r.At = r.At.Add(step.after)
				r.Highest += uint32(step.sent + step.left)
				r.Lost += int32(step.lost)
				r.Bytes += uint64(1000 * max(step.sent, 0))
				r.Declined += uint64(step.left)
				r.DeclinedSize += uint64(1000 * step.left)
				require.EqualValues(t, step.out, l.Heed(r), "step %d", i)
			}
		})
	}
}

// FuzzLimit has a player report any numbers. The limit is not below a fifth of the publisher's rate when it is cut, and
// never far above that.
func FuzzLimit(f *testing.F) {
	f.Add([]byte{0, 0, 0, 40, 0, 0, 0, 10, 0, 0, 0, 80, 0, 0, 0, 30})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0x7f, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0x80, 0, 0})
	var worse []byte // ever more losses
	for i, lost := range []uint32{0, 150, 585, 1457} {
		worse = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(worse, uint32(1000*(i+1))), lost)
	}
	f.Add(worse)
	f.Fuzz(func(t *testing.T, b []byte) {
		const second = 250_000 // bytes that the publisher sends
		var l Limit
		report := Report{At: time.Unix(1e9, 0)}
		for ; len(b) >= 8; b = b[8:] {
			report.At = report.At.Add(time.Second)
			report.Highest = binary.BigEndian.Uint32(b)
			report.Lost = int32(binary.BigEndian.Uint32(b[4:])<<8) >> 8
			sent := uint64(second)
			if rate := l.Rate(); rate != 0 {
				sent = min(sent, uint64(rate))
			}
			report.Bytes += sent
			report.Declined += (second - sent) / 1000
			report.DeclinedSize += second - sent
			before := l.Rate()
			rate := l.Heed(report)
			require.Equal(t, rate, l.Rate())
			if rate != 0 {
				require.GreaterOrEqual(t, rate, int64(second*least)-1)
				require.LessOrEqual(t, rate, int64(second*enough*fast)+1)
			}
			if before == 0 && rate != 0 {
				require.LessOrEqual(t, rate, int64(second*headroom))
			}
		}
	})
}
