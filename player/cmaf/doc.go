// Package cmaf splits fragmented MP4 (CMAF, ISO/IEC 23000-19) into its init segment and chunks, and puts such parts
// together.
//
// A [Reader] reads a file or a live stream. [Reader.Init] returns the init segment as an [Init], which describes the
// tracks; [Reader.Next] returns one [Chunk] after the other, each a moof box and its mdat box of one track. A player
// parses objects with [Init.ParseChunk]. [Init.Only] and [Join] make init segments with fewer or more tracks, and
// [Chunk.Later] moves a chunk in time, for a file that is published again and again.
//
// Input may be hostile: every size is checked against a limit before memory is allocated. The media itself is not
// parsed.
package cmaf
