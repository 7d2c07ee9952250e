// Package congestion decides how much a connection may have in flight and how fast its packets leave: congestion
// controllers, pacing, and the estimate of the round-trip time.
//
// A [Controller] serves one connection. The media sender reports packets to it, and asks it for a window and a rate:
//
//	ACK frame ────► Acked ────┐                ┌──► Window: most bytes in flight; both senders of a connection obey it
//	loss found ───► Lost ─────┼─► Controller ──┤
//	not lost ─────► Spurious ─┤                └──► Rate: bytes per second, for the [Pacer]
//	new path ─────► Reset ────┘
//
// [NewCubic] makes the default controller: CUBIC (RFC 9438) with HyStart++ (RFC 9406). It fills the queue of the
// bottleneck until packets are lost, and takes each loss for a full queue.
//
// [NewBBR] makes one that measures how fast the path delivers: BBR version 3 (draft-ietf-ccwg-bbr). It sends at that
// rate, with up to twice as much in flight as the path holds, so that queues stay short, and losses below 2 % hardly
// matter. bbr.go has the model and its consequences, delivery.go the measurement, bbr_probe.go the search for more
// bandwidth, bbr_rtt.go the search for the lowest RTT, bbr_loss.go the response to losses.
//
// [NewPrague] makes one for paths that mark packets as soon as they wait (L4S, RFC 9330). Its packets ask for that by
// ECT(1), see [Scalable]. It is CUBIC until marks come, and responds to them little by little
// (draft-briscoe-iccrg-prague-congestion-control).
//
// # How to write a controller
//
// Implement [Controller], and set NewController of server.Config or media.SenderConfig to a function that makes one
// for each connection, or name it in [Controllers], for the flag --congestion. A controller needs no lock: it is
// called by one goroutine at a time, with the lock of its sender held. For the same reason it must not block and must
// not call the sender.
//
// Give it the method String, which names it in metrics and in the relay's status as [Controllers] does. Tests that
// range over [Controllers] then try it: TestVideo, TestMarkingPath (it has to respond to CE),
// TestControllersDoNotAllocate and FuzzControllers. So does sluice-lab replay with its tests (lab/bench/replay), which
// gives random numbers to a [Seeder]: a controller that takes others fails TestReplayIsRepeatable. These list
// controllers by hand, for what each is good at: TestPaths, TestCompetingFlows and TestVideoOnSlowerPath,
// TestSimulatedPaths and FuzzECN of package media, TestECN of package fastpath and TestLosses of lab/bench/replay. The
// names of the two controllers that only lab/bench/replay has (Controllers there) are taken. A name in [Controllers]
// also goes into the help of the flag (cmd/sluice/relay_flags.go; TestHelpNamesControllers), into its errors
// (testdata/usage.txtar there), into the text above, docs/media.md, docs/architecture.md and README.md. docs/config.md
// and dist/relay.yaml are made of the flags: CONTRIBUTING.md says how.
//
// Loss detection (RFC 9002 §6) is the sender's. A controller hears of the result: one [AckEvent] for each ACK frame
// that acknowledges something new, one [LossEvent] for all packets found lost at one time, and a call of Spurious for
// each packet that was reported lost and arrives after all. Packets of both senders of the connection are reported. A
// packet that the path has marked as congested (AckEvent.CE) has arrived, and counts as lost for the rate of BBR.
// Nobody reports that packets are sent, as the kernel sends some: they appear in InFlight.
//
// An event with AppLimited says nothing about the path: the publisher, and not the window, limited the data. A
// controller should not grow its window then. LimitedSince is for controllers that measure rates: a rate counts only if
// data waited all the time that it was measured in.
//
// The window stays between [MinWindow] and [MaxWindow]: FuzzControllers wants it so, and the sender makes sure. A rate
// of 0 turns pacing off. The [Pacer] lets about half a window leave at once, so that a video frame on an idle path is
// not delayed.
package congestion
