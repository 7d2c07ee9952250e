package trial

import (
	"maps"
	"slices"
	"time"

	"github.com/cilium/ebpf"
)

// Timeline is the CPU time that a trial has used up at moments of the measured period, the first at its beginning.
type Timeline []Moment

// Moment is the CPU time that the processes of a trial have used up so far.
type Moment struct {
	At                            time.Duration // since the beginning of the measured period
	Relay, Publisher, Subscribers time.Duration // as [Share.Total] and [Usage.RelayTotal]
	Programs                      map[ebpf.ProgramID]ProgramUse
}

// ProgramUse is the run time of an eBPF program since it was loaded.
type ProgramUse struct {
	Name    string
	Runtime time.Duration
	Runs    uint64
	// Within reports whether the run time of another program contains the program's, or the time of a process that runs
	// it (BPF_PROG_RUN) or sends.
	Within bool
}

// only returns the timeline without other programs than those given.
func (t Timeline) only(programs map[ebpf.ProgramID]bool) Timeline {
	for _, m := range t {
		maps.DeleteFunc(m.Programs, func(id ebpf.ProgramID, _ ProgramUse) bool { return !programs[id] })
	}
	return t
}

// Interval is the CPU time used between two moments.
type Interval struct {
	At                            time.Duration // its middle
	Length                        time.Duration
	Relay, Publisher, Subscribers time.Duration // as in [Moment]
	EBPF                          time.Duration // of the relay's programs, as [Usage.EBPF]
}

// Intervals returns the CPU time used between the moments.
func (t Timeline) Intervals() []Interval {
	var out []Interval
	for i := 1; i < len(t); i++ {
		a, b := t[i-1], t[i]
		v := Interval{
			At: (a.At + b.At) / 2, Length: b.At - a.At, Relay: b.Relay - a.Relay,
			Publisher: b.Publisher - a.Publisher, Subscribers: b.Subscribers - a.Subscribers,
		}
		for id, p := range b.Programs {
			if !p.Within {
				v.EBPF += p.Runtime - a.Programs[id].Runtime
			}
		}
		if v.Length > 0 {
			out = append(out, v)
		}
	}
	return out
}

// Percent returns a time as a share of one core.
func (i Interval) Percent(d time.Duration) float64 { return 100 * d.Seconds() / i.Length.Seconds() }

// Programs returns the use of the programs that ran, between the moments at which they were loaded, by id.
func (t Timeline) Programs() (out []ProgramUse) {
	all := make(map[ebpf.ProgramID]*ProgramUse)
	for i := 1; i < len(t); i++ {
		for id, use := range t[i].Programs {
			p := all[id]
			if p == nil {
				p = &ProgramUse{Name: use.Name, Within: use.Within}
				all[id] = p
			}
			before := t[i-1].Programs[id]
			p.Runtime, p.Runs = p.Runtime+use.Runtime-before.Runtime, p.Runs+use.Runs-before.Runs
		}
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if all[id].Runs > 0 {
			out = append(out, *all[id])
		}
	}
	return out
}
