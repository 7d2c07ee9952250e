package server

import (
	"context"
	"fmt"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

const (
	// The transport asks an upstream relay for a sign of life when nothing has come for keepAlive. After maxSilence it
	// is asked again, and lost if it does not answer within lastChance, or a round trip and a half if that is longer,
	// and the socket brings nothing of it within lastLook after the kernel has given the socket all packets. Its
	// subscribers wait meanwhile; a session that is given up too early costs them nothing but a new one, unless the
	// kernel has packets of it.
	keepAlive  = 250 * time.Millisecond
	maxSilence = 450 * time.Millisecond
	lastChance = 500 * time.Millisecond
	lastLook   = 50 * time.Millisecond
)

// silent begins the reason with which a session ends whose relay does not answer.
const silent = "no sign of life"

// watchSilence ends a session whose relay does not answer any more, long before the idle timeout would. While packets
// come it sends nothing, and hardly wakes. awaitKernel is kernel.await.
func watchSilence(conn transport.Conn, awaitKernel func() bool) {
	for answers(conn, awaitKernel) {
		next := time.NewTimer(time.Until(conn.LastReceived().Add(maxSilence)))
		select {
		case <-next.C:
		case <-conn.Context().Done():
			next.Stop()
			return
		}
	}
	reason := fmt.Sprintf("%s within %v", silent, maxSilence+lastChance)
	_ = conn.CloseWithError(uint64(moqt.SessionControlMessageTimeout), reason) // fails only if it has ended
}

// answers reports whether the relay is not silent, answers when it is asked, or has ended the session. A relay that had
// no time itself to look does not count as silent.
//
// Nor does one whose packets the kernel has. Programs send copies of a packet before the socket gets it, and a virtual
// machine's CPU may not run for a second in between. If the session was given up then, the relay would not know what
// subscribers have got, and another source would bring it to them once more.
func answers(conn transport.Conn, awaitKernel func() bool) bool {
	for time.Since(conn.LastReceived()) >= maxSilence {
		began, timeout := time.Now(), max(lastChance, 3*conn.RTT()/2)
		if hears(conn, timeout) {
			return true
		}
		comes := func() bool { return conn.LastReceived().After(began) }
		if awaitKernel() && (comes() || hears(conn, lastLook) || comes()) { // an answer takes a round trip
			return true
		}
		if time.Since(began) < 2*timeout {
			return false
		}
	}
	return true
}

// hears asks the relay for a sign of life. It reports whether one comes within a time, or the session has ended.
func hears(conn transport.Conn, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(conn.Context(), timeout)
	defer cancel()
	return conn.Probe(ctx) == nil || conn.Context().Err() != nil
}
