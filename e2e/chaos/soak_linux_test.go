package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"sluice/lab/bench/chart"
	"sluice/lab/bench/result"
)

// plots shows what the relays hold over the time of an act: that it does not grow.
type plots struct {
	relays        []*relay
	began, latest time.Time
	charts        []chart.Chart
}

// plotInterval is the least time between two points.
const plotInterval = 10 * time.Second

func newPlots(relays []*relay) *plots {
	p := &plots{relays: relays, began: time.Now()}
	for _, c := range []struct{ id, title, unit string }{
		{"memory", "Resident memory", "MiB"},
		{"heap", "Go's heap after a garbage collection", "MiB"},
		{"goroutines", "Goroutines", ""},
		{"maps", "Entries of the relay's BPF hash maps", ""},
		{"sessions", "Sessions", ""},
	} {
		drawn := chart.Chart{
			ID: c.id, Title: c.title, Form: chart.Lines,
			X: chart.Axis{Title: "time", Unit: "min"}, Y: chart.Axis{Unit: c.unit},
		}
		for i := range relays {
			drawn.Traces = append(drawn.Traces, chart.Trace{Name: relayNames[i], System: i})
		}
		p.charts = append(p.charts, drawn)
	}
	return p
}

// note adds points, unless it has done so lately.
func (p *plots) note() error {
	if time.Since(p.latest) < plotInterval {
		return nil
	}
	p.latest = time.Now()
	for i, r := range p.relays {
		if err := p.add(i, r); err != nil {
			return err
		}
	}
	return nil
}

func (p *plots) add(i int, r *relay) error {
	h, err := r.holds()
	if err != nil {
		return err
	}
	maps := 0.0
	for name, value := range h {
		if !slices.Contains(heldMetrics, name) && !slices.Contains(heldByRTSP, name) {
			maps += value
		}
	}
	const mib = 1 << 20
	at := time.Since(p.began).Minutes()
	for k, value := range []float64{
		h["process_resident_memory_bytes"] / mib, h["go_memstats_heap_alloc_bytes"] / mib, h["go_goroutines"], maps,
		h["sluice_relay_sessions"],
	} {
		t := &p.charts[k].Traces[i]
		t.X, t.Y = append(t.X, result.Number(at)), append(t.Y, result.Number(value))
	}
	return nil
}

// draw writes the plots into a directory.
func (p *plots) draw(dir string) error {
	for _, c := range p.charts {
		f, err := os.Create(filepath.Join(dir, "chaos-"+c.ID+".svg"))
		if err != nil {
			return err
		}
		if err := chart.Draw(f, c); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
