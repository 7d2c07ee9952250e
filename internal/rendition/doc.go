// Package rendition has the rule by which a player, or a relay for it, chooses one of several renditions of a video.
//
// A [Chooser] decides, by what is known of a [Path]. Where media arrives, a [Meter] measures that, and where it is sent
// a [Sender] does. Times are given, so that the rule can be tested without waiting.
package rendition
