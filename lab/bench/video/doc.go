// Package video is the content of a benchmark's broadcasts: the frames of a publisher, how a subscriber verifies them,
// and how much a viewer would have seen.
//
// A [Source] is a broadcast without an end. [Mock] makes frames of a given rate, whose payload carries the time of
// publication and a checksum; with layers, its groups have four subgroups of falling priority. [Clip] repeats the
// video of a file. A subscriber feeds a [Digest] with an object as it arrives and verifies it at its end, without a
// copy of the media.
//
// [Play] replays recorded arrivals as a player with a fixed playout delay would show them: a frame is shown if it and
// all frames that it depends on arrived in time.
package video
