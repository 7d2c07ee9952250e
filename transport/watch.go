package transport

import (
	"time"

	"sluice/clock"

	"github.com/quic-go/quic-go"
)

// watch probes the server of a connection while it is silent after it was sending, so that a client to which media was
// flowing soon notices that the server has been started again: that answers the probe by a stateless reset (RFC 9000
// §10.3). It returns when the connection has ended.
//
// The keep-alive of quic-go is too rare for that, and cannot be as frequent: it would go on while nothing is sent.
func watch(qc *quic.Conn, interval time.Duration) {
	var w watcher
	for range clock.Every(interval, qc.Context().Done()) {
		if w.probes(qc.ConnectionStats().PacketsReceived) {
			qc.Ping()
		}
	}
}

// watcher decides when to probe a peer.
type watcher struct {
	received uint64 // packets
	sending  bool   // the peer was, as far as is known
	probed   bool   // since the last packet
}

// probes reports whether to probe the peer, from which so many packets have been received. It is called once in each
// interval. A packet that is alone may be the answer to a probe, which tells that the peer is there and has nothing to
// send, or the peer's own probe.
func (w *watcher) probes(received uint64) bool {
	packets := received - w.received
	w.received = received
	switch {
	case packets > 1:
		w.sending, w.probed = true, false
	case packets == 1 && w.probed:
		w.sending, w.probed = false, false
	case packets == 0 && w.sending:
		w.probed = true
		return true
	}
	return false
}
