package natsengine

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/server/cluster"
)

// mute is the engine of a node that tells about itself, and does not listen to others but when they ask it.
type mute struct{ *Engine }

// Subscribe implements cluster.Engine.
func (m mute) Subscribe(f func(string, []byte), patterns ...string) error {
	for _, p := range patterns {
		if strings.Contains(p, ".ask.") {
			return m.Engine.Subscribe(f, p)
		}
	}
	return nil
}

// simulation is many nodes on one NATS server, all in this process.
type simulation struct {
	b      *testing.B
	server *server.Server
	nodes  []*cluster.Node
}

func newSimulation(b *testing.B) *simulation {
	s, err := server.NewServer(&server.Options{DontListen: true, NoLog: true, NoSigs: true})
	require.NoError(b, err)
	s.Start()
	require.True(b, s.ReadyForConnections(10*time.Second))
	return &simulation{b: b, server: s}
}

func (s *simulation) close() {
	for _, n := range s.nodes {
		_ = n.Leave()
	}
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// join adds a node, whose engine may be replaced.
func (s *simulation) join(wrap func(*Engine) cluster.Engine) *cluster.Node {
	id := fmt.Sprint("n", len(s.nodes))
	e := newEngine(slog.New(slog.DiscardHandler))
	conn, err := nats.Connect("", append(e.options(id), nats.InProcessServer(s.server))...)
	require.NoError(s.b, err)
	require.NoError(s.b, e.attach(conn, nil))
	n, err := cluster.Join(cluster.Config{
		ID: id, Card: func() cluster.Card { return cluster.Card{URL: "moqt://" + id} },
		Logger: slog.New(slog.DiscardHandler),
	}, wrap(e))
	require.NoError(s.b, err)
	s.nodes = append(s.nodes, n)
	return n
}

// await waits until a node knows a number of routes.
func (s *simulation) await(n *cluster.Node, routes int) {
	for {
		known := 0
		for _, st := range n.Status().Nodes {
			known += len(st.Routes) + st.More
		}
		if known == routes {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// cpuTime returns the CPU time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for no process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap returns the bytes of live objects.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkRoutes announces many namespaces of many nodes to one node that knows them all, as each node of a cluster
// does: how much of its memory each takes, how soon it knows all of them after it has joined, and how soon it knows
// those that change.
func BenchmarkRoutes(b *testing.B) {
	for _, size := range []struct{ nodes, namespaces int }{{10, 1000}, {100, 10_000}, {1000, 100_000}} {
		b.Run(fmt.Sprintf("nodes=%d/namespaces=%d", size.nodes, size.namespaces), func(b *testing.B) {
			for range b.N {
				benchmarkRoutes(b, size.nodes, size.namespaces)
			}
		})
	}
}

func benchmarkRoutes(b *testing.B, nodes, namespaces int) {
	s := newSimulation(b)
	defer s.close()
	for range nodes {
		s.join(func(e *Engine) cluster.Engine { return mute{e} })
	}
	share := namespaces / nodes
	nameOf := func(i, k int) moqt.Namespace {
		return moqt.Namespace{"live", fmt.Sprint("customer", i), fmt.Sprint("broadcast", k)}
	}
	for i, n := range s.nodes {
		for k := range share {
			n.Advertise(nameOf(i, k))
		}
	}
	before, began := heap(), time.Now()
	full := s.join(func(e *Engine) cluster.Engine { return e })
	s.await(full, namespaces)
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-join")
	b.ReportMetric(float64(heap()-before)/float64(namespaces), "B/namespace")

	began, used := time.Now(), cpuTime()
	for i, n := range s.nodes[:nodes] {
		for k := range share {
			n.Withdraw(nameOf(i, k))
		}
	}
	s.await(full, 0)
	b.ReportMetric(float64(cpuTime()-used)/float64(namespaces), "cpu-ns/change")
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-change-all")
}

// BenchmarkBeats lets nodes be alive that all listen to each other: the CPU time of all of them and of the server for
// a second, by the number of beats that arrive.
func BenchmarkBeats(b *testing.B) {
	for _, nodes := range []int{10, 50, 200} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			s := newSimulation(b)
			defer s.close()
			for range nodes {
				s.join(func(e *Engine) cluster.Engine { return e })
			}
			time.Sleep(time.Second)
			const seconds = 2
			b.ResetTimer()
			for range b.N {
				before, used := s.received(), cpuTime()
				time.Sleep(seconds * time.Second)
				beats := float64(s.received() - before)
				b.ReportMetric(beats/seconds, "beats/s")
				b.ReportMetric(float64(cpuTime()-used)/beats, "cpu-ns/beat")
			}
		})
	}
}

func (s *simulation) received() (n uint64) {
	for _, node := range s.nodes {
		n += node.Counts().Received
	}
	return n
}

// BenchmarkDeath lets a tenth of the nodes die, and measures until the others know.
func BenchmarkDeath(b *testing.B) {
	for range b.N {
		s := newSimulation(b)
		const size = 50
		var engines []*Engine
		for range size {
			s.join(func(e *Engine) cluster.Engine { engines = append(engines, e); return e })
		}
		for i, n := range s.nodes {
			n.Advertise(moqt.Namespace{"live", fmt.Sprint(i)})
		}
		s.await(s.nodes[size-1], size)
		began := time.Now()
		for _, e := range engines[:size/10] {
			_ = e.Close()
		}
		for _, n := range s.nodes[size/10:] {
			s.await(n, size-size/10)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-notice")
		s.close()
	}
}
