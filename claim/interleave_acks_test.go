package claim_test

import (
	"fmt"
	"testing"

	"sluice/claim"
	"sluice/claim/claimtest"
)

// These tests are about ACKs that a forwarder takes from the network (fastpath/bpf/transport/acks.h, media/taken.go).
// They are processed with the ledger of package claim. The queue is a model of a BPF ring buffer.

// queue is a ring of packets that were taken. A record is 0, busy, or what was put in.
type queue struct {
	lock, producer, consumer *claim.Word
	records                  []claim.Word
	crowded, impatient       bool // break rules
}

const busy = 1

func newQueue(words []claim.Word) *queue {
	return &queue{lock: &words[0], producer: &words[1], consumer: &words[2], records: words[3:]}
}

// put adds a record, which is not 0 or busy.
func (q *queue) put(record uint64) {
	at := q.producer.Add(1) - 1
	q.records[at].CompareAndSwap(0, busy)
	q.records[at].Store(record)
}

// handOver calls f with each record that is complete.
func (q *queue) handOver(place string, f func(record uint64)) {
	until(place, func() bool { return q.lock.CompareAndSwap(0, 1) || q.crowded })
	for at := q.consumer.Load(); at < q.producer.Load(); at++ {
		record := q.records[at].Load()
		if record <= busy && !q.impatient {
			break
		}
		f(record)
		q.consumer.Store(at + 1)
	}
	q.lock.Store(0)
}

// TestInterleavedAcks has two copies be sent and acknowledged. The ACK of the first is taken. That of the second goes
// up to quic-go, and has the first considered lost if it is not acknowledged by then. Another goroutine empties the
// queue at the same time.
func TestInterleavedAcks(t *testing.T) {
	const (
		lossFirst = rule("the queue is emptied after losses were detected")
		wireFirst = rule("a packet leaves before its record is written")
		crowded   = rule("two empty the queue at the same time")
		impatient = rule("a record of the queue is read while it is written")
	)
	rules := []rule{lossFirst, wireFirst, crowded, impatient}
	checkRules(t, rules, func(broken rule, wrong func(string)) *claimtest.Scenario {
		const size = 10
		sc := claimtest.NewScenario(2)
		sc.Shared = make([]claim.Word, 6)
		wire, up := &sc.Shared[0], &sc.Shared[1]
		q := newQueue(sc.Shared[2:])
		q.crowded, q.impatient = broken == crowded, broken == impatient
		leave := func() { sc.Conn.InFlight.Add(^uint64(size - 1)) }
		acknowledge := func(number uint64) {
			if e, ok := sc.Ledger.Read(number); ok && e.Live() {
				sc.Ledger.Mark(e, claim.FlagAcked)
				leave()
			}
		}
		handOver := func(place string) {
			q.handOver(place, func(record uint64) { acknowledge(record - 2) })
		}
		sc.Actors = []func(){
			func() { // the forwarder
				for range 2 {
					n, _, _ := sc.Conn.Begin(sc.Ledger)
					if broken == wireFirst {
						wire.Store(n + 1)
					}
					sc.Conn.Commit(sc.Ledger, n, 1, int64(n), claim.NewInfo(0, size, 0, claim.KindStream))
					wire.Store(n + 1)
					claimtest.Forget(fmt.Sprint("sent ", n))
				}
			},
			func() { // the peer, and the program at ingress
				until("nothing sent", func() bool { return wire.Load() >= 1 })
				q.put(0 + 2)
				claimtest.Forget("acknowledged 0")
				until("sent one", func() bool { return wire.Load() >= 2 })
				up.Store(1)
			},
			func() { handOver("reader") },
			func() { // quic-go
				isSet(up, "nothing came")
				if broken != lossFirst {
					handOver("quic-go")
				}
				acknowledge(1)
				if e, ok := sc.Ledger.Read(0); ok && e.Live() {
					wrong("a packet is lost although it was acknowledged")
					sc.Ledger.Mark(e, claim.FlagLost)
					leave()
				}
			},
		}
		sc.Check = func() {
			handOver("end")
			for n := range uint64(2) {
				if e, ok := sc.Ledger.Read(n); !ok || !e.Has(claim.FlagAcked) {
					wrong(fmt.Sprintf("packet %d is not acknowledged", n))
				}
			}
			if sc.Conn.InFlight.Load() != 0 {
				wrong(fmt.Sprintf("%d bytes in flight", int64(sc.Conn.InFlight.Load())))
			}
		}
		return sc
	})
}

// TestInterleavedOptimisticAcks has a peer acknowledge what may not have been sent, and what is skipped so that such
// peers are noticed. It harms nobody: what is in flight stays right, and it is noticed if the record was there.
func TestInterleavedOptimisticAcks(t *testing.T) {
	const unchecked, blind = rule("what it acknowledges is not compared with what was sent"),
		rule("skipped numbers have no records")
	checkRules(t, []rule{unchecked, blind}, func(broken rule, wrong func(string)) *claimtest.Scenario {
		const size = 10
		sc := claimtest.NewScenario(4)
		sc.Shared = make([]claim.Word, 9)
		noticed, over := &sc.Shared[0], &sc.Shared[1]
		q := newQueue(sc.Shared[2:])
		first, _, _ := sc.Conn.Begin(sc.Ledger)
		sc.Conn.Commit(sc.Ledger, first, 1, 0, claim.NewInfo(0, size, 0, claim.KindStream))
		process := func(record uint64) {
			next := sc.Conn.NextPN.Load() & claim.NumberMask
			if record-2 >= next {
				wrong("it acknowledges what was never sent, and nobody has noticed")
				return
			}
			for n := range record - 1 {
				switch e, ok := sc.Ledger.Read(n); {
				case !ok || !e.Live():
				case e.Kind() == claim.KindSkipped:
					noticed.Store(1)
				default:
					sc.Ledger.Mark(e, claim.FlagAcked)
					sc.Conn.InFlight.Add(^uint64(size - 1))
				}
			}
		}
		sc.Actors = []func(){
			func() { // the media sender
				n, _, _ := sc.Conn.Begin(sc.Ledger)
				if broken == blind {
					sc.Conn.Abort()
				} else {
					sc.Conn.Commit(sc.Ledger, n, 1, 0, claim.NewInfo(0, 0, 0, claim.KindSkipped))
				}
				claimtest.Forget("skipped")
				over.Store(1)
			},
			func() { // the peer, and the program at ingress
				for i := range 2 {
					if i == 1 {
						isSet(over, "not skipped")
					}
					if broken == unchecked || 1 < sc.Conn.NextPN.Load()&claim.NumberMask {
						q.put(1 + 2)
					}
					claimtest.Forget(fmt.Sprint("acknowledged ", i))
				}
			},
			func() { q.handOver("reader", process) },
		}
		sc.Check = func() {
			q.handOver("end", process)
			inFlight := uint64(0)
			for n := range uint64(2) {
				if e, ok := sc.Ledger.Read(n); ok && e.Live() {
					inFlight += uint64(e.Size())
				}
			}
			if sc.Conn.InFlight.Load() != inFlight {
				wrong("bytes in flight")
			}
			if noticed.Load() == 0 && q.producer.Load() > 0 {
				wrong("nobody has noticed")
			}
		}
		return sc
	})
}

// TestInterleavedTaking updates the keys, and has quic-go send a packet of its own. It sees the first packet of the new
// keys and all acknowledgments of its packets.
func TestInterleavedTaking(t *testing.T) {
	const (
		notPaused = rule("taking goes on while the keys are updated")
		anyPhase  = rule("packets of any key phase are taken")
		late      = rule("taking is paused when quic-go's packet has left")
	)
	checkRules(t, []rule{notPaused, anyPhase, late}, func(broken rule, wrong func(string)) *claimtest.Scenario {
		const paused, takes = 0, 1 // takes + key phase
		sc := claimtest.NewScenario(1)
		sc.Shared = make([]claim.Word, 5)
		taking, keys, own, first, answered := &sc.Shared[0], &sc.Shared[1], &sc.Shared[2], &sc.Shared[3], &sc.Shared[4]
		taking.Store(takes)
		taken := func(phase uint64) bool { // by the program at ingress, which has opened the packet with its key
			v := taking.Load()
			return v >= takes && (broken == anyPhase || v-takes == phase)
		}
		sc.Actors = []func(){
			func() { // the peer sends a packet of each key generation
				isSet(keys, "no keys")
				if taken(1) {
					wrong("quic-go does not see the first packet of the new keys")
				}
				first.Store(1)
				claimtest.Forget("old and new")
				updated := first.Load() == 2
				if taken(0) && updated {
					wrong("quic-go does not see that the peer goes on with the old keys")
				}
			},
			func() { // the peer acknowledges quic-go's packet
				isSet(own, "no packet")
				for phase := range uint64(2) {
					if taken(phase) {
						wrong("quic-go does not see the acknowledgment of its packet")
					}
				}
				answered.Store(1)
			},
			func() { // quic-go and the media sender
				if broken != notPaused {
					taking.Store(paused)
				} else {
					taking.Store(takes + 1)
				}
				keys.Store(1)
				isSet(first, "no packet of the new keys")
				taking.Store(takes + 1)
				first.Store(2)
				claimtest.Forget("updated")
				if broken != late {
					taking.Store(paused)
				}
				own.Store(1)
				taking.Store(paused)
				isSet(answered, "no acknowledgment")
				taking.Store(takes + 1)
			},
		}
		sc.Check = func() {}
		return sc
	})
}

// TestInterleavedQueueReuse closes a connection whose ACKs are in the queue, and being put there, and gives its index
// to another one. That gets none of them, and what is counted for it is what waits for it.
func TestInterleavedQueueReuse(t *testing.T) {
	const (
		noGrace   = rule("runs that are putting something into the queue are not awaited")
		notEmpty  = rule("the queue is not emptied")
		uncounted = rule("packets of connections that have gone stay counted")
		late      = rule("a packet is counted when it is in the queue")
	)
	rules := []rule{noGrace, notEmpty, uncounted, late}
	checkRules(t, rules, func(broken rule, wrong func(string)) *claimtest.Scenario {
		const first, second = 2, 3 // connections with the same index
		sc := claimtest.NewScenario(1)
		sc.Shared = make([]claim.Word, 9)
		known, waiting, negative := &sc.Shared[0], &sc.Shared[1], &sc.Shared[2]
		programs := runs{&sc.Shared[3]}
		q := newQueue(sc.Shared[4:])
		known.Store(first)
		handOver := func(place string) {
			q.handOver(place, func(record uint64) {
				to := known.Load()
				if (to != 0 || broken != uncounted) && int64(waiting.Add(^uint64(0))) < 0 {
					negative.Store(1)
				}
				if to != 0 && to != record {
					wrong("a packet was handed to another connection")
				}
			})
		}
		put := func(record uint64) {
			if broken == late {
				q.put(record)
				waiting.Add(1)
			} else {
				waiting.Add(1)
				q.put(record)
			}
		}
		sc.Actors = []func(){
			func() { // the program at ingress, for the connections with the index
				for range 2 {
					programs[0].Store(1)
					if c := known.Load(); c != 0 {
						put(c)
					}
					programs[0].Store(0)
					claimtest.Forget("taken one")
				}
			},
			func() { // user space
				known.Store(0)
				if broken != noGrace {
					programs.awaitGracePeriod("grace")
				}
				if broken != notEmpty {
					handOver("reclaimer")
				}
				if broken == uncounted && waiting.Load() != 0 {
					wrong("packets of a connection that has gone count for the next one")
				}
				claimtest.Forget("free")
				known.Store(second)
			},
			func() { handOver("reader") },
		}
		sc.Check = func() {
			handOver("end")
			if waiting.Load() != 0 || negative.Load() != 0 {
				wrong(fmt.Sprintf("%d packets wait", int64(waiting.Load())))
			}
		}
		return sc
	})
}
