// Package measure computes delays from the times at which packets passed two points.
//
// There are two ways to recognise at the second point a packet that passed the first. [DatagramDelays] compares
// contents: it serves forwarders that leave payloads as they are. [MatchBursts] takes a media frame as a burst of
// packets after a silence: it serves relays that cut and encrypt packets anew, and treats them as black boxes.
//
// The recording is lab.Capture.
package measure
