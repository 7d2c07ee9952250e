// Package load is the load generators of a benchmark: a publisher, subscribers, and a hog that keeps processors busy.
//
// A generator is a process of its own, so that its CPU time can be told from that of the relay, and the only client of
// a relay that the benchmark needs. Whoever starts it passes a [GeneratorConfig] and then talks with it in lines:
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
// The payload of a mock object carries its sequence number, its time of publication and a checksum (package video), so
// a subscriber knows of every object whether it is intact, new and in its place.
package load
