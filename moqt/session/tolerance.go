package session

import (
	"sluice/moqt"
)

// Mistake is a rule of the draft that an implementation in use breaks. A session lives with it if nobody else is
// harmed, unless [Config].Strict says not to.
type Mistake uint8

// Mistakes. The table below says whose they are.
const (
	// MissesCurrentGroup is made by a subscriber that needs the current group from its start, as a catalog is published
	// once, and asks for the objects after the Largest Object without a joining FETCH (§5.1.2, §10.12.2). Its
	// subscriptions start with the current group.
	MissesCurrentGroup Mistake = 1 << iota
	// MisreadsLargestObject is made by a subscriber that expects a length before the value of LARGEST_OBJECT
	// (§10.2.11). SUBSCRIBE_OK to it has none.
	MisreadsLargestObject
	// MisreadsTrackProperties is made by a subscriber that takes the Track Properties of SUBSCRIBE_OK for the next
	// message (draft-16 §9.10). SUBSCRIBE_OK to it has none.
	MisreadsTrackProperties
	// WritesOldParameters is made by a peer that writes SUBSCRIBER_PRIORITY as a varint (§10.2.7), and GROUP_ORDER in
	// SUBSCRIBE_OK (§10.2.8), or in draft 16 a GROUP_ORDER of 0, as draft 14 had it (§9.2.2.4).
	WritesOldParameters
	// FetchesWithoutPriority is made by a publisher whose answers to FETCH have Publisher Priority 0, whatever the
	// subgroup's priority is (§2.4.2, §11.4.4.1).
	FetchesWithoutPriority
)

// mistakes says who makes which mistake, and where it is reported. Implementations tell their names in
// MOQT_IMPLEMENTATION, and these do not tell their version, so releases that are mended are treated alike: each
// tolerance also serves peers that are right.
var mistakes = []struct {
	peer     string       // what its MOQT_IMPLEMENTATION begins with
	from, to moqt.Version // drafts
	mistake  Mistake
	text     string
	issue    string
}{
	{"moq-lite-", 17, 19, MissesCurrentGroup, "subscribes after the largest object and misses the current group",
		"https://github.com/moq-dev/moq/pull/3701"},
	{"moq-lite-js", 17, 22, MisreadsLargestObject, "expects a length in LARGEST_OBJECT",
		"https://github.com/moq-dev/moq/pull/3561"},
	{"moq-lite-js", 17, 22, WritesOldParameters, "writes parameters as before draft 17",
		"https://github.com/moq-dev/moq/issues/2864"},
	{"ShakaPlayer/", 16, 16, MissesCurrentGroup, "subscribes after the largest object and misses the current group",
		"none is known; seen in npm shaka-player 5.2.12, lib/msf/msf_tracks_manager.js"},
	{"ShakaPlayer/", 16, 16, WritesOldParameters, "asks for the publisher's group order as in draft 14",
		"https://github.com/shaka-project/shaka-player/pull/10508"},
	{"ShakaPlayer/", 16, 16, MisreadsTrackProperties, "takes track properties for the next message",
		"https://github.com/shaka-project/shaka-player/pull/10508"},
	{"moq-lite-", 17, 22, FetchesWithoutPriority, "answers FETCH with priority 0",
		"none is known; seen in crate moq-net 0.3.18, src/ietf/publisher.rs"},
}
