package claim_test

import (
	"fmt"
	"testing"

	"sluice/claim"
	"sluice/claim/claimtest"
)

// These tests are about ACKs. The socket's reader opens them, or leaves them to quic-go (media/reader.go). They are
// processed with the ledger of package claim.

// TestInterleavedAcks has two copies be sent and acknowledged. The reader opens the ACK of the first. The ACK of the
// second goes to quic-go, and the first then counts as lost if it is not acknowledged yet.
func TestInterleavedAcks(t *testing.T) {
	const (
		upFirst   = rule("quic-go gets an ACK before the reader has processed the one before")
		wireFirst = rule("a packet leaves before its record is written")
	)
	checkRules(t, []rule{upFirst, wireFirst}, func(broken rule, wrong func(string)) *claimtest.Scenario {
		const size = 10
		sc := claimtest.NewScenario(2)
		sc.Shared = make([]claim.Word, 2)
		wire, up := &sc.Shared[0], &sc.Shared[1]
		leave := func() { sc.Conn.InFlight.Add(^uint64(size - 1)) }
		acknowledge := func(number uint64) {
			if e, ok := sc.Ledger.Read(number); ok && e.Live() {
				sc.Ledger.Mark(e, claim.FlagAcked)
				leave()
			}
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
			func() { // the peer, and the reader
				until("nothing sent", func() bool { return wire.Load() >= 1 })
				if broken != upFirst {
					acknowledge(0)
					claimtest.Forget("acknowledged 0")
				}
				until("sent one", func() bool { return wire.Load() >= 2 })
				up.Store(1)
				if broken == upFirst {
					acknowledge(0)
				}
			},
			func() { // quic-go
				isSet(up, "nothing came")
				acknowledge(1)
				if e, ok := sc.Ledger.Read(0); ok && e.Live() {
					wrong("a packet is lost although it was acknowledged")
					sc.Ledger.Mark(e, claim.FlagLost)
					leave()
				}
			},
		}
		sc.Check = func() {
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

// TestInterleavedOptimisticAcks has a peer acknowledge numbers that may be unsent, and a number skipped so that such
// peers are noticed. It harms nobody: the bytes in flight stay right, and it is noticed if the record was there.
func TestInterleavedOptimisticAcks(t *testing.T) {
	const blind = rule("skipped numbers have no records")
	checkRules(t, []rule{blind}, func(broken rule, wrong func(string)) *claimtest.Scenario {
		const size = 10
		sc := claimtest.NewScenario(4)
		sc.Shared = make([]claim.Word, 3)
		noticed, over, processed := &sc.Shared[0], &sc.Shared[1], &sc.Shared[2]
		first, _, _ := sc.Conn.Begin(sc.Ledger)
		sc.Conn.Commit(sc.Ledger, first, 1, 0, claim.NewInfo(0, size, 0, claim.KindStream))
		process := func(largest uint64) {
			if largest >= sc.Conn.NextPN.Load()&claim.NumberMask {
				return // quic-go notices
			}
			processed.Store(1)
			for n := range largest + 1 {
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
			func() { // the peer, and the reader
				process(1)
				claimtest.Forget("acknowledged")
				isSet(over, "not skipped")
				process(1)
			},
		}
		sc.Check = func() {
			inFlight := uint64(0)
			for n := range uint64(2) {
				if e, ok := sc.Ledger.Read(n); ok && e.Live() {
					inFlight += uint64(e.Size())
				}
			}
			if sc.Conn.InFlight.Load() != inFlight {
				wrong("bytes in flight")
			}
			if noticed.Load() == 0 && processed.Load() != 0 {
				wrong("nobody has noticed")
			}
		}
		return sc
	})
}
