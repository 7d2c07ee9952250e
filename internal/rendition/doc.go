// Package rendition has the rule by which a relay chooses one of several renditions of a video for a player. The web
// page chooses by the same rule where a relay does not.
//
// A [Chooser] decides, by the state of a [Path], which a [Sender] knows. Times are given, so that the rule can be
// tested without waiting.
package rendition
