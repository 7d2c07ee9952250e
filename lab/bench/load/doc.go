// Package load is the load generators of a benchmark: a publisher, subscribers, a hog that keeps processors busy, and a
// bystander that pings.
//
// A generator is a process of its own, so that its CPU time is apart from the relay's. The benchmark needs no other
// client of a relay. The process that starts a generator passes a [GeneratorConfig], and then they exchange lines:
// commands in, [Event] as JSON out.
//
//	            publisher                              subscribers
//	            connect, PUBLISH_NAMESPACE             connect, SUBSCRIBE, for each session
//	            → ready                                → ready
//	go →        a frame whenever one is due            verify and count objects
//	stop →      → published
//	stop N →                                           wait for N objects each → received
//	stop →      end
//
// A participant in a conference is publisher and subscriber in one session: it is ready when its namespace is
// announced, and after the command join again, when it has subscribed to all others.
//
// With RTSP, the publisher sends ANNOUNCE and RECORD, and each session DESCRIBE, SETUP and PLAY. A frame is a NAL unit
// of H.264, which RTP packets carry by UDP.
//
// Instead of publishing or subscribing itself, a generator can run programs that do, such as other makers' clients.
// They take and give the same video as fragmented MP4.
//
// The command used is answered with the CPU time so far, at any time.
//
// A bystander is ready at once, pings from go to stop, and reports after each stop.
//
// The payload of a mock object carries its sequence number, its time of publication and a checksum (package video), so
// a subscriber can tell whether an object is intact, new and in its place.
package load
