// Package hostile is peers and clients that do harm, for the tests of a relay: each [Attack] is made on a session that
// began properly. [NodeAttacks] are attacks by a node of a cluster on the others.
//
// A test dials a relay, and gives the session to an attack:
//
//	p := hostile.NewPeer(victim)
//	p.Session, p.Conn = dial(p) // with p as the session's handler
//	err := attack.Run(p)
//
// For [UpstreamAttacks] it is the other way round: a relay has dialed the test, which accepts the session for a peer of
// [NewUpstream].
//
// [RTSPAttacks] are attacks by clients of RTSP, which need no session:
//
//	err := attack.Run(ctx, hostile.RTSPClient{Address: "127.0.0.1:8554", Victim: "live/camera"})
//
// An attack ends when the relay has repelled it, or when the session ends. An error that is [ErrUndefended] says that
// the relay did not. Whether others noticed the attack is for the test to find out: it publishes and subscribes beside
// it.
package hostile
