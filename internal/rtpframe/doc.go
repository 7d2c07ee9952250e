// Package rtpframe tells the frame and the kind of an RTP packet, and decides which frames a player gets.
//
// [KindOf] looks at the headers in a payload: a key frame, a frame that others depend on, or one that can be left out
// alone. These are the words, and the priorities, of MoQ broadcasts (package pub). [Frames] counts the frames of a
// media. A [Flow] decides which frames of a media a player gets: it has a bucket of bytes, and the decisions about the
// latest frames. A frame goes whole or not at all, and frames that depend on one left out do not go.
//
//	packet ── KindOf ── Frames.Number ──► Flow.Judge ──► the player, or nowhere
//	                                         ▲
//	receiver reports ── Limit ── bucket ─────┘
//
// A [Limit] chooses the rate of the bucket by a player's reports (RFC 3550 §6.4). Without reports of loss there is no
// bucket, and everything goes. In the kernel, fastpath/bpf/policy/flow.h has the same rule, and user space and the
// kernel share the same memory.
package rtpframe
