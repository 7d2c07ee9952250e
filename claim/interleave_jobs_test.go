package claim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/claim/claimtest"
)

// These tests are about forwarders that give a part of their work to others: jobs for workers
// (fastpath/bpf/fanout/job.h, fastpath/workers_linux.go). The claims are package claim's. The rest is a model of the
// kernel and of package fastpath, in words that the actors share. Each rule of the protocol can be broken, and then
// something must be wrong.

// rule is a rule that a test breaks; "" breaks none.
type rule string

// checkRules explores a scenario with each of the rules broken, and with none. The scenario calls wrong when something
// is.
func checkRules(t *testing.T, rules []rule, setup func(broken rule, wrong func(string)) *claimtest.Scenario) {
	for _, broken := range append(rules, "") {
		t.Run(string(broken), func(t *testing.T) {
			found := ""
			explored := claimtest.Explore(t, func() *claimtest.Scenario {
				sc := setup(broken, func(what string) { found = what })
				sc.Enough = func() bool { return found != "" }
				return sc
			})
			t.Logf("%+v: %s", explored, found)
			if broken == "" {
				require.Empty(t, found)
				require.NotZero(t, explored.Ends)
			} else {
				require.NotEmpty(t, found)
			}
		})
	}
}

// until waits for a condition, which looks at shared words only.
func until(place string, holds func() bool) {
	for !holds() {
		claimtest.Forget(place)
	}
}

// isSet waits until a word is set.
func isSet(w *claim.Word, place string) { until(place, func() bool { return w.Load() != 0 }) }

// runs are the runs of programs that are going on, each a word. A grace period ends when the runs that had begun have
// ended.
type runs []*claim.Word

func (r runs) awaitGracePeriod(place string) {
	for i, running := range r {
		until(fmt.Sprint(place, i), func() bool { return running.Load() == 0 })
	}
}

// TestInterleavedPromise has a forwarder give a frame to a worker, and then hand the packet up. The media sender waits
// for the worker, but not for ever. All bytes are sent once, and by the worker unless time was up.
func TestInterleavedPromise(t *testing.T) {
	const early, blind, deaf = rule("the packet goes up before the job is counted"),
		rule("the media sender does not wait"), rule("the worker sends what it was given, whatever the cursor says")
	checkRules(t, []rule{early, blind, deaf}, func(broken rule, wrong func(string)) *claimtest.Scenario {
		sc := claimtest.NewScenario(8)
		sc.Shared = make([]claim.Word, 6)
		ring, given, arrived := &sc.Shared[0], &sc.Shared[1], &sc.Shared[2]
		kept, over, stolen := &sc.Shared[3], &sc.Shared[4], &sc.Shared[5]
		sc.Actors = []func(){
			func() { // the forwarder
				ring.Store(1)
				if broken == early {
					arrived.Store(1)
				}
				given.Add(1)
				arrived.Store(1)
			},
			func() { // the worker
				isSet(ring, "no job")
				if broken == deaf {
					sc.Stream.Next.Store(0)
				}
				sc.SendFrame(0, 4, true)
				kept.Add(1)
			},
			func() { // the media sender
				isSet(arrived, "nothing has come")
				jobs := given.Load()
				timeIsUp := false
				until(fmt.Sprint("wait for ", jobs), func() bool {
					timeIsUp = over.Load() != 0
					return timeIsUp || broken == blind || kept.Load() >= jobs
				})
				if sc.Send(4, 4, true) && !timeIsUp {
					stolen.Store(1)
				}
			},
			func() { over.Store(1) }, // the clock
		}
		sc.Check = func() {
			next, closed := sc.Stream.Cursor()
			if !closed || next != 4 || sc.Conn.DataSent.Load() != 4 {
				wrong("not all was sent, once")
			}
			if stolen.Load() != 0 {
				wrong("the media sender was faster than the worker")
			}
		}
		return sc
	})
}

// TestInterleavedReuse closes a connection while a forwarder gives a job for it, and gives its index to another one. No
// run for the first one uses a packet number of the second.
func TestInterleavedReuse(t *testing.T) {
	const (
		noGrace   = rule("the jobs that are being given are not awaited")
		noJobs    = rule("jobs are not awaited")
		noAge     = rule("workers do jobs of any age")
		noEnd     = rule("workers that have begun a job are not awaited when it gets too old")
		uncounted = rule("a job is counted when the run has ended")
		stillTold = rule("lists go on naming the index")
	)
	rules := []rule{noGrace, noJobs, noAge, noEnd, uncounted, stillTold}
	checkRules(t, rules, func(broken rule, wrong func(string)) *claimtest.Scenario {
		sc := claimtest.NewScenario(1)
		sc.Shared = make([]claim.Word, 10)
		listed := &sc.Shared[9]
		path, ring, since, given, kept := &sc.Shared[0], &sc.Shared[1], &sc.Shared[2], &sc.Shared[3], &sc.Shared[4]
		now, done := &sc.Shared[5], &sc.Shared[6]
		forwarding, working := &sc.Shared[7], &sc.Shared[8]
		programs := runs{forwarding, working}
		const first, second = 100, 1000 // packet numbers of the connections
		shared, old, next := sc.Conn, new(claim.ConnState), new(claim.ConnState)
		shared.NextPN.Store(first)
		next.NextPN.Store(second)
		path.Store(1)
		listed.Store(1)
		copyFor := func() { // what a run of a program does for the first connection
			if path.Load() == 0 {
				return
			}
			if n, ok := shared.TakeNumber(); ok && (n < first || n >= second) {
				wrong(fmt.Sprintf("a copy for the first connection has number %d", n))
			}
		}
		sc.Actors = []func(){
			func() { // the forwarder
				forwarding.Store(1)
				if listed.Load() != 0 {
					since.Store(now.Load())
					if broken != uncounted {
						given.Add(1)
					}
					ring.Store(1)
				}
				forwarding.Store(0)
				if broken == uncounted {
					given.Add(ring.Load())
				}
				done.Store(1)
			},
			func() { // the worker
				until("no job", func() bool { return done.Load() != 0 || ring.Load() != 0 })
				if ring.Load() == 0 {
					return
				}
				working.Store(1)
				if age := now.Load() - since.Load(); age == 0 || broken == noAge {
					copyFor()
				}
				working.Store(0)
				kept.Add(1)
			},
			func() { // user space
				shared.MoveTo(old)
				path.Store(0)
				if broken != stillTold {
					listed.Store(0)
				}
				if broken != noGrace {
					programs.awaitGracePeriod("first")
				}
				jobs, deadline := given.Load(), now.Load()
				late := false
				until(fmt.Sprint("jobs ", jobs, deadline), func() bool {
					late = now.Load() > deadline
					return late || broken == noJobs || kept.Load() >= jobs
				})
				if late && broken != noEnd {
					programs.awaitGracePeriod("second")
				}
				claimtest.Forget("free")
				next.MoveTo(shared)
				path.Store(2)
			},
			func() { now.Add(1) }, // the clock: a step is the lifetime of a job
		}
		sc.Check = func() {}
		return sc
	})
}

// TestInterleavedVersions replaces a list of subscribers while a run and a job use it. Each reads one version. A worker
// begins no job that is too old, so it is the same as if it had done it.
func TestInterleavedVersions(t *testing.T) {
	const (
		inPlace = rule("a version replaces the other in place")
		noGrace = rule("a version is freed at once")
		noJobs  = rule("jobs are not awaited")
		latest  = rule("parts are looked up in what is the latest version by then")
	)
	checkRules(t, []rule{inPlace, noGrace, noJobs, latest}, func(broken rule, wrong func(string)) *claimtest.Scenario {
		// The elements of a map: a key, which is the version, and two parts. Free elements have key 0.
		sc := claimtest.NewScenario(1)
		sc.Shared = make([]claim.Word, 12)
		given, kept := &sc.Shared[10], &sc.Shared[11]
		element := func(i int) (key, head, tail *claim.Word) {
			return &sc.Shared[3*i], &sc.Shared[3*i+1], &sc.Shared[3*i+2]
		}
		current, job := &sc.Shared[6], &sc.Shared[7]
		programs := runs{&sc.Shared[8], &sc.Shared[9]}
		write := func(i int, version uint64) {
			key, head, tail := element(i)
			head.Store(version)
			tail.Store(version)
			key.Store(version)
		}
		write(0, 1)
		current.Store(1)
		find := func(version uint64) (head, tail *claim.Word) {
			for i := range 2 {
				if key, head, tail := element(i); key.Load() == version {
					return head, tail
				}
			}
			return nil, nil
		}
		read := func(version uint64) {
			head, tail := find(version)
			if head == nil {
				return
			}
			a := head.Load()
			if broken == latest {
				if _, tail = find(current.Load()); tail == nil {
					return
				}
			}
			if b := tail.Load(); a != b {
				wrong(fmt.Sprintf("versions %d and %d are mixed", a, b))
			}
		}
		sc.Actors = []func(){
			func() { // the forwarder
				programs[0].Store(1)
				version := current.Load()
				given.Store(1)
				job.Store(version)
				read(version)
				programs[0].Store(0)
			},
			func() { // the worker
				isSet(job, "no job")
				programs[1].Store(1)
				read(job.Load())
				programs[1].Store(0)
				kept.Store(1)
			},
			func() { // user space
				for version := uint64(2); version <= 3; version++ {
					at := int(version+1) % 2
					if broken == inPlace {
						at = 0
					}
					write(at, version)
					current.Store(version)
					if broken != noGrace {
						programs.awaitGracePeriod(fmt.Sprint("version ", version))
					}
					jobs := given.Load()
					until(fmt.Sprint(version, " awaits ", jobs), func() bool {
						return broken == noJobs || kept.Load() >= jobs
					})
					key, _, _ := element(1 - at)
					key.Store(0)
					claimtest.Forget(fmt.Sprint("replaced by ", version))
				}
			},
		}
		sc.Check = func() {}
		return sc
	})
}
