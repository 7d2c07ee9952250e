// Package measure computes delays from the times at which packets passed two points.
//
// [MatchBursts] takes a media frame as a burst of packets after a silence. So it serves relays that cut and encrypt
// packets anew, and treats them as black boxes.
//
// The recording is lab.Capture.
package measure
