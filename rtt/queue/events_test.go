package queue

import (
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// gate is a Sink that waits for its flush until it may go on.
type gate struct {
	reporttest.Sink
	open  chan struct{}
	order []string
	err   error
}

func (g *gate) Sample(s *report.Sample) error {
	g.order = append(g.order, s.Protocol)
	return g.Sink.Sample(s)
}

func (g *gate) Flow(f *report.FlowEvent) error {
	g.order = append(g.order, string(f.Reason))
	return g.Sink.Flow(f)
}

func (g *gate) Flush() error {
	<-g.open
	return errors.Join(g.err, g.Sink.Flush())
}

func newEvents(open bool) (*gate, *Events) {
	g := &gate{open: make(chan struct{})}
	if open {
		close(g.open)
	}
	return g, NewEvents(EventsConfig{To: "write", Sink: g, Logger: slog.New(slog.DiscardHandler)})
}

func lostEvents(t *testing.T, q *Events) int {
	var m dto.Metric
	require.NoError(t, q.Write(&m))
	return int(m.GetCounter().GetValue())
}

// TestEventsAreCopied changes values after they were passed on, as their owner may.
func TestEventsAreCopied(t *testing.T) {
	g, q := newEvents(true)
	s, f := reporttest.DNS(), reporttest.Opening()
	reason := f.Reason
	require.NoError(t, q.Sample(s))
	require.NoError(t, q.Flow(f))
	s.Protocol, f.Reason = "other", "other"
	*s.DNS = report.DNS{}
	quic := reporttest.QUIC()
	require.NoError(t, q.Sample(quic))
	*quic.QUIC = report.QUIC{}
	require.NoError(t, q.Close())
	require.Equal(t, []string{"DNS", string(reason), "QUIC"}, g.order)
	require.Equal(t, []report.Sample{*reporttest.DNS(), *reporttest.QUIC()}, g.Samples)
	require.Equal(t, []report.FlowEvent{*reporttest.Opening()}, g.Flows)
}

// TestEventsHaveALimit has a file that takes nothing: events come back at once, and those without room are counted.
// Events that have room are written at the end.
func TestEventsHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, q := newEvents(false)
		require.NoError(t, q.Sample(reporttest.TCP()))
		require.NoError(t, q.Flush())
		synctest.Wait()
		for range maxEvents + 7 {
			require.NoError(t, q.Sample(reporttest.TCP()))
		}
		require.NoError(t, q.Flush())
		require.Equal(t, 7, lostEvents(t, q))
		close(g.open)
		synctest.Wait()
		require.NoError(t, q.Sample(reporttest.TCP()), "there is room again")
		require.NoError(t, q.Close())
		require.Len(t, g.order, 1+maxEvents+1)
		require.Equal(t, 7, lostEvents(t, q))
	})
}

// ignoring is a Sink that keeps nothing.
type ignoring struct{ report.Sink }

func (ignoring) Sample(*report.Sample) error { return nil }
func (ignoring) Flush() error                { return nil }

// TestEventsOfABurst has many events at once, on one processor. They give way to who takes them, so the same short
// lists serve all: a list of all of them would take 256 bytes for each.
func TestEventsOfABurst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	q := NewEvents(EventsConfig{To: "write", Sink: ignoring{}})
	s := reporttest.TCP()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3 * maxEvents {
		if err := q.Sample(s); err != nil {
			t.Fatal(err)
		}
	}
	require.NoError(t, q.Close())
	runtime.ReadMemStats(&after)
	require.Zero(t, lostEvents(t, q))
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/(3*maxEvents), uint64(128))
}

// TestEventsTellErrors has a Sink that fails: the next event or flush tells it, or else the end.
func TestEventsTellErrors(t *testing.T) {
	for name, next := range map[string]func(*Events) error{
		"event": func(q *Events) error { return q.Sample(reporttest.TCP()) },
		"flush": (*Events).Flush,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, q := newEvents(true)
				g.err = errors.New("no space left")
				require.NoError(t, q.Sample(reporttest.TCP()))
				require.NoError(t, q.Flush())
				synctest.Wait()
				require.ErrorIs(t, next(q), g.err)
				require.NoError(t, q.Close(), "it was told")
			})
		})
	}
	g, q := newEvents(true)
	g.err = errors.New("no space left")
	require.NoError(t, q.Sample(reporttest.TCP()))
	require.ErrorIs(t, q.Close(), g.err)
}

// TestWake has the Sink flushed although nothing was measured: a file is opened again.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, q := newEvents(true)
		require.NoError(t, q.Flush())
		synctest.Wait()
		require.Zero(t, g.Flushed, "there is nothing to do")
		q.Wake()
		synctest.Wait()
		require.Equal(t, 1, g.Flushed)
		require.NoError(t, q.Close())
	})
}
