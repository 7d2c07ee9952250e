// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
// The frames of RTP medias, and what players get of them. User space has the same types, in package rtpframe, which
// explains them.
#pragma once

#include "maps.h"

#define FRAME_HISTORY 16 // frames of a media that are remembered
#define LATE_HISTORIES 4 // times as long before them, packets count as late

// How to read a payload.
enum rtp_codec {
	CODEC_UNKNOWN,
	CODEC_AUDIO,
	CODEC_H264,
	CODEC_H265,
	CODEC_AV1,
};

// What depends on the frame of a packet. Of several kinds that a packet has, the last one counts.
enum rtp_kind {
	RTP_PART, // the packet does not tell
	RTP_OTHER, // the codec is not known
	RTP_SOUND,
	RTP_DISPOSABLE,
	RTP_DELTA,
	RTP_KEY,
};

// The frames of a media, by their timestamps, numbered as they come.
struct rtp_frames {
	u64 newest; // number << 32 | timestamp; 0: there was none
	u64 latest[FRAME_HISTORY]; // the same, by number
	u64 lead; // LEADS | sequence number << 32 | timestamp, of the packet farthest ahead with which a frame has begun
	u32 limited; // something may not go to a player of the media; if not, programs do not look at frames
	u32 temporal; // the highest temporal id
};

// What a player gets of a media.
struct rtp_flow {
	u64 decided; // number of the newest frame << 32 | FLOW_BROKEN | a bit for each of the latest: it does not go
	u64 bucket_at; // as in conn_state
	u32 bucket_cost, bucket_burst;
};

#define FLOW_BROKEN (1U << 31) // nothing goes before the next key frame

#define LEADS (1ULL << 48) // there is one

GO_TYPE(enum, rtp_codec);
GO_TYPE(enum, rtp_kind);
