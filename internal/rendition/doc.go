// Package rendition has the rule by which a player, or a relay for it, chooses one of several renditions of a video.
//
// A [Chooser] decides, by the state of a [Path]. Where media arrives, a [Meter] measures it, and where media is sent a
// [Sender] does. Times are given, so that the rule can be tested without waiting.
package rendition
